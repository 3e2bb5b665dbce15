"""Run folders as the trainer writes them: locked, taken up, rewound, pruned."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import TINY_OPTIONS, assert_same_runs, start_cli

from beacon.cli.main import main
from beacon.errors import RunError, UserError
from beacon.runs import Run, RunFolder
from beacon.runs.checkpoints import Checkpoints, find_checkpoint
from beacon.runs.metrics import lines_until, parse_line, read_metrics, series


def test_a_symlinked_lock_harms_nobody(
    half: Callable[[], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, precious = half(), tmp_path / "precious"
    precious.write_text("hours of work")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(precious)
    assert main(["train", "--resume", "--out", str(run)]) == 2
    assert ".lock: is a symbolic link, not a lock; remove it" in capsys.readouterr().err
    assert precious.read_text() == "hours of work"
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(tmp_path / "not there")
    with pytest.raises(UserError, match="symbolic link"), RunFolder(run).locked():
        pass
    assert not (tmp_path / "not there").exists()


def test_a_lock_is_not_written_to_and_held_once(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("whatever it is")
    folder = RunFolder(tmp_path)
    with folder.locked(), pytest.raises(UserError, match="another process is training"), folder.locked():
        pass
    assert (tmp_path / ".lock").read_text() == "whatever it is"
    with folder.locked():
        pass


@pytest.mark.parametrize(
    "line",
    [b"\xff", b'{"kind": "train", "step": 1, "lo', b"[" * 100_000, b'{"kind": ["train"], "step": 1}', b"1"],
)
def test_a_bad_line_does_not_block_resume(line: bytes, half: Callable[[], Path], finished: Path) -> None:
    run = half()
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert main(["train", "--resume", "--out", str(run)]) == 0
    assert_same_runs(finished, run)


def test_lines_that_cannot_be_used() -> None:
    assert parse_line(b'{"kind": "train", "step": 3, "loss": 1}') == {"kind": "train", "step": 3, "loss": 1}
    for line in (
        b"",
        b"null",
        b'{"kind": "train"}',
        b'{"kind": "train", "step": true}',
        b'{"kind": "train", "step": -1}',
        b'{"kind": "train", "step": 1e3}',
        b'{"kind": {}, "step": 1}',
        b'{"kind": "train", "step": ' + b"9" * 400 + b"}",
    ):
        assert parse_line(line) is None, line


def test_metrics_are_read_with_tolerance(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert read_metrics(file).train == [] and lines_until(file, 9) == b""
    good = [
        b'{"kind": "train", "step": 4, "loss": 0.5}',
        b'{"kind": "train", "step": 2, "loss": NaN}',
        b'{"kind": "train", "step": 2, "loss": ' + b"9" * 400 + b', "x": "text"}',
        b'{"kind": "refresh", "step": 4, "mass": 1}',
        b'{"kind": "comment", "step": 1}',
    ]
    file.write_bytes(b"\n".join([*good[:2], b"\xff\xfe", *good[2:], b'{"kind": "tra']))
    log = read_metrics(file)
    assert [entry["step"] for entry in log.train] == [2, 4] and log.last_step == 4
    assert len(log.refreshes) == 1 and log.damaged == 2
    steps, values = series(log.train, "loss")
    assert (steps.tolist(), values.tolist()) == ([4.0], [0.5])  # neither NaN nor what no float can hold
    assert len(series(log.train, "x")[0]) == 0
    # Up to the checkpoint at step 4; a refresh at that step belongs to what comes after.
    assert lines_until(file, 4) == b"\n".join([*good[:3], good[4], b""])


def test_a_kill_before_pruning_leaves_no_checkpoint_too_many(run: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("keep: 9", "keep: 2"))
    assert sorted(Checkpoints(run / "checkpoints").steps()) == [2, 4, 6]
    assert main(["train", "--resume", "--out", str(run)]) == 0  # there is nothing left to train
    assert sorted(Checkpoints(run / "checkpoints").steps()) == [4, 6]
    assert find_checkpoint(run).name == "00000006"


def test_pruning_spares_what_was_not_named_yet(run: Path) -> None:
    checkpoints = Checkpoints(run / "checkpoints")
    (run / "checkpoints" / "last").write_text("00000004\n")
    (run / "checkpoints" / "notes").mkdir()
    checkpoints.prune(1)
    assert sorted(checkpoints.steps()) == [4, 6] and (run / "checkpoints" / "notes").exists()


def test_a_failure_at_the_first_save_speaks_of_no_previous_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(RunError, match="disk is full; there is no checkpoint yet"), checkpoints.saving(2, 1):
        raise full
    assert not checkpoints.any and list(checkpoints.folder.iterdir()) == []
    with checkpoints.saving(2, 1) as folder:
        (folder / "policy.json").write_text("{}")
    assert checkpoints.last == 2
    with (
        pytest.raises(RunError, match="disk is full; the previous checkpoint is intact"),
        checkpoints.saving(4, 1),
    ):
        raise full
    assert list(checkpoints.steps()) == [2] and find_checkpoint(tmp_path).name == "00000002"


def test_the_command_line_says_so_too(finished: Path, source: Path, target: Path, tmp_path: Path) -> None:
    size = (finished / "checkpoints" / "00000006" / "policy.safetensors").stat().st_size
    limit = (size - 1000, size - 1000)
    process = start_cli(
        *("train", "--source", source, "--target", target, "--out", tmp_path / "run", *TINY_OPTIONS),
        *("--steps", "2", "--steps-per-epoch", "2", "--batch-size", "8", "--device", "cpu"),
        *("--no-tensorboard", "--method", "cotrain"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    _, error = process.communicate()
    assert process.returncode == 1 and error.count("\n") == 1, error
    assert "there is no checkpoint yet" in error and "previous" not in error


@pytest.mark.parametrize("name", ["", "..", "../../elsewhere", "a\0b", "/", "00000006\nmore", "x" * 300])
def test_last_names_a_folder_beside_it(name: str, run: Path) -> None:
    (run / "checkpoints" / "last").write_bytes(name.encode())
    with pytest.raises(UserError, match=r"last: damaged"):
        find_checkpoint(run)
    with pytest.raises(UserError, match=r"last: damaged"):
        assert Run(run).checkpoints.last
    assert Run(run).windows is not None  # the newest table


def test_another_number_of_domains_is_refused(run: Path) -> None:
    domains = Run(run).domains
    (run / "data.json").write_text("[]")
    with pytest.raises(UserError, match="was started with 0 domains, not 2"):
        RunFolder(run).take_up(domains)
