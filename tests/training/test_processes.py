"""Several processes train as one does: the same mini-batches, the same losses, one run folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from process_files import mapped_frames, read
from safetensors.torch import load_file
from tiny_runs import TINY_OPTIONS, assert_same_runs, metrics, start_cli, tiny_config

from beacon.cli.main import main
from beacon.cli.train_processes import _first_killed
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.training.ranks import Ranks
from beacon.training.trainer import Trainer

EPOCHS = 5
PATIENCE = 900  # seconds; a busy machine takes minutes to start two processes
CPU = torch.device("cpu")


def options(source: Path, target: Path, out: Path, *more: str) -> list[str]:
    return [
        *("--source", str(source), "--target", str(target), "--out", str(out), "--validation", str(target)),
        *("--steps", str(EPOCHS * 2), "--steps-per-epoch", "2", "--batch-size", "8", "--log-every", "1"),
        *("--checkpoint-every", "1", "--keep", "9", "--device", "cpu", "--threads", "1", "--seed", "3"),
        *("--method", "beacon", "--auxiliary", "future-state", "feature-distance", *TINY_OPTIONS, *more),
        *("--noise-levels", "by-loss", "--noise-levels.begin", "0", "--noise-levels.least-visits", "1"),
    ]


@pytest.fixture(scope="module")
def together(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes."""
    out = tmp_path_factory.mktemp("runs") / "together"
    assert main(["train", *options(source, target, out, "--processes", "2")]) == 0
    return out


@pytest.fixture(scope="module")
def alone(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same by one process."""
    out = tmp_path_factory.mktemp("runs") / "alone"
    assert main(["train", *options(source, target, out)]) == 0
    return out


def assert_close_runs(first: Path, second: Path) -> None:
    """Two runs differ by no more than float32 rounding, which Adam magnifies where gradients are nothing."""
    for one, other in zip(metrics(first), metrics(second), strict=True):
        assert one.keys() == other.keys()
        for name in [name for name in one if name not in ("kind", "epoch", "step")]:
            assert np.isclose(one[name], other[name], rtol=2e-3, atol=1e-4), (one["kind"], one["step"], name)
    last = max(path.name for path in (first / "checkpoints").glob("0*"))
    ours, theirs = (load_file(run / "checkpoints" / last / "policy.safetensors") for run in (first, second))
    apart = torch.cat([(ours[name] - theirs[name]).abs().flatten() for name in ours])
    assert float(apart.mean()) < 1e-5


def test_two_processes_agree_with_one(together: Path, alone: Path) -> None:
    assert_close_runs(alone, together)
    first, second = metrics(alone, "train")[0], metrics(together, "train")[0]
    assert np.isclose(first["loss"], second["loss"], rtol=1e-6)  # before anything was learned


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_run_which_resumes_to_the_bit(
    rank: int, together: Path, source: Path, target: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start_cli("train", *options(source, target, run, "--processes", "2"))
    kill_rank(process, rank, run)
    _, errors = process.communicate(timeout=PATIENCE)
    if process.returncode:  # a fast machine may be done before
        assert process.returncode == 1
        assert f"process {rank + 1} of 2 was ended by SIGKILL" in errors
        assert "--resume" in errors and "Traceback" not in errors
    assert main(["train", "--resume", "--out", str(run), "--processes", "2"]) == 0
    assert_same_runs(together, run)


@pytest.mark.parametrize(
    ("codes", "killed"),
    [
        ([0, 0], None),
        ([1, 0], None),
        ([1, -signal.SIGTERM], None),
        ([-signal.SIGABRT, -signal.SIGKILL], (1, "SIGKILL")),
        ([-signal.SIGSEGV, -signal.SIGABRT], (0, "SIGSEGV")),
        ([-signal.SIGABRT, -signal.SIGTERM], (0, "SIGABRT")),
    ],
)
def test_names_the_process_that_was_killed_not_those_that_aborted_for_it(
    codes: list[int], killed: tuple[int, str] | None
) -> None:
    assert _first_killed(codes) == killed


def kill_rank(process: subprocess.Popen[str], rank: int, run: Path) -> None:
    """SIGKILL one of the processes once there is a checkpoint."""
    until = time.monotonic() + PATIENCE
    while not (run / "checkpoints" / "last").exists() and process.poll() is None:
        assert time.monotonic() < until, "the run does not start"
        time.sleep(0.01)
    started = [child for child in children(process.pid) if "spawn_main" in read(child / "cmdline")]
    if len(started) == 2:
        frames = [mapped_frames(child) for child in started]
        if all(frames):  # one that ends has none
            assert frames[0] == frames[1]  # both processes have the same memory
        os.kill(sorted(int(child.name) for child in started)[rank], signal.SIGKILL)


def children(process: int) -> list[Path]:
    """The folders in /proc of a process's children."""
    folders = Path("/proc").glob("[0-9]*")
    return [folder for folder in folders if f"PPid:\t{process}\n" in read(folder / "status")]


def test_goes_on_with_another_number_of_processes(
    alone: Path, source: Path, target: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert main(["train", *options(source, target, run, "--max-hours", "1e-9")]) == 0  # the first epoch
    assert 0 < len(metrics(run, "train")) < EPOCHS * 2
    again = ["train", "--resume", "--out", str(run), "--max-hours", "1", "--processes", "4"]
    assert main(again) == 0
    assert_close_runs(alone, run)


def test_torchrun_starts_the_same_run(together: Path, source: Path, target: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [*command, "-m", "beacon", "train", *options(source, target, run)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert_same_runs(together, run)


def test_batches_must_be_divided(
    source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *options(source, target, tmp_path / "run", "--processes", "3")]) == 2
    assert "--processes 3: must divide --batch-size 8" in capsys.readouterr().err


def test_every_row_is_measured_once() -> None:
    for count in (0, 1, 255, 256, 257, 1000):
        for size in (1, 2, 3, 7):
            rows = [Ranks(rank, size, rank).shard(count, CPU).rows for rank in range(size)]
            covered = [number for part in rows for number in range(count)[part]]
            assert covered == list(range(count))


def test_shares_have_the_random_numbers_of_the_whole(source: Path, target: Path, tmp_path: Path) -> None:
    """Losses of the two halves of a mini-batch, and of parts of a sweep, are those of the whole."""
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    index = trainer.method.batches(0)[0]
    whole = trainer.loss_pass(trainer.windows.gather(index), generator(1))[0]
    for rank in range(2):
        share = Ranks(rank, 2, rank).share(len(index))
        assert share is not None
        own = trainer.loss_pass(trainer.windows.gather(index[share.rows]), generator(1), share)[0]
        assert torch.allclose(own, share.of(whole, dim=1), rtol=1e-5)
    many = np.tile(trainer.measurer.everything, 10)
    swept = trainer.measurer(many, 2, (1, 2)).losses
    for rank in range(2):
        rows = Ranks(rank, 2, rank).shard(len(many), CPU).rows
        assert torch.allclose(trainer.measurer(many, 2, (1, 2), rows=rows).losses, swept[rows], rtol=1e-5)
