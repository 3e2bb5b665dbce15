"""What ``beacon train`` says of a run: what it has, how long it takes, how to go on."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from test_train_command import SMALL
from tiny_runs import start_cli

from beacon.cli.main import main
from beacon.cli.train_progress import TimeLeft
from beacon.policy.presets import PRESETS


def test_a_run_says_what_it_has(
    source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = ["--source", str(source), "--target", str(target), *SMALL]
    assert main(["train", *arguments, "--max-hours", "1e-9", "--out", str(run)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "data: sim: 5 demonstrations, 45 windows; real (target): 2 demonstrations, 14 windows"
    assert said[1].startswith("training: method beacon, preset cpu, 6 steps of 8 windows, ")
    assert said[1].endswith(" parameters, on cpu")
    assert f"beacon train --resume --out {run} goes on" in said[-2]
    assert "stopped at step 2 of 6, before --max-hours 1e-09 had passed" in said[-2]
    assert main(["train", "--resume", "--out", str(run), "--max-hours", "None"]) == 0
    out = capsys.readouterr().out
    assert "on cpu, going on after step 2" in out and "stopped" not in out


@pytest.mark.parametrize("preset", PRESETS)
def test_a_dry_run_starts_nothing(
    preset: str, source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--source", str(source), "--target", str(target), *SMALL, "--out", str(tmp_path / "run")]
    assert main(["train", *arguments, "--preset", preset, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"preset {preset}, " in lines[1]
    assert [line.split(":")[0] for line in lines] == ["data", "training", "parameters", "memory", "time"]
    assert not list(tmp_path.iterdir())


def test_the_papers_sizes_say_whose_method_they_have(
    tmp_path: Path, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--preset", "paper", *SMALL, "--policy.encoder.feature-dim", "8", "--out", str(tmp_path / "run")]
    data = ["--source", str(source), "--target", str(target)]
    assert main(["train", *data, *run]) == 0
    captured = capsys.readouterr()
    assert "BEACON as we recommend it; --method beacon-paper is the paper's own" in captured.out
    assert "image_size: 96" in (tmp_path / "run" / "config.yaml").read_text()
    for said in (["--method", "beacon-paper"], ["--method", "beacon"]):
        assert main(["train", *data, *run[:-1], str(tmp_path / said[1]), *said]) == 0
        assert "as we recommend it" not in capsys.readouterr().out


def test_an_interrupt_says_how_to_go_on(source: Path, target: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", "--source", source, "--target", target, *SMALL, "--steps", "100000", "--out", run]
    process = start_cli(*arguments)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("data: ")  # it has begun
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130
    (told,) = error.splitlines()
    command = f"beacon train --resume --out {run}"
    assert told in (
        f"beacon: interrupted; no checkpoint was written yet; {command} starts from the first step",
        f"beacon: interrupted; {command} goes on from its last checkpoint",
    )
    has_checkpoint = (run / "checkpoints" / "last").exists()
    assert told.endswith("goes on from its last checkpoint") == has_checkpoint


def test_an_interrupt_before_the_run_began_says_so(
    source: Path,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("beacon.training.run.check_loggers", interrupt)  # the first thing that is done
    arguments = ["--source", str(source), "--target", str(target), *SMALL, "--out", str(tmp_path / "run")]
    assert main(["train", *arguments]) == 130
    assert "nothing was written; give the same command again" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_terminal_sees_at_once_what_is_trained(source: Path, target: Path, tmp_path: Path) -> None:
    arguments = ["train", "--source", source, "--target", target, *SMALL, "--out", tmp_path / "run"]
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "beacon", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment)
    os.close(end)
    shown = b""
    with suppress(OSError):  # the other end is closed
        while read := os.read(terminal, 4096):
            shown += read
    os.close(terminal)
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r", "\n").split("\n")
    lines = [line for line in plain if line.strip()]
    assert lines[0] == f"method beacon, preset cpu, device cpu: source {source.name}; target {target.name}"
    steps = [line for line in lines if line.startswith("beacon ")]
    assert steps and all(re.search(r"\d+/\d+ loss \d\.\d{4}", line) for line in steps)


def test_time_left_counts_what_happens_between_epochs() -> None:
    now = [0.0]
    left = TimeLeft(10, clock=lambda: now[0])
    seconds = {}
    for step in range(21, 101):  # resumed after two epochs
        now[0] += 31.0 if step % 10 == 1 else 1.0  # 30 s before every epoch of ten steps
        seconds[step] = left(step, 100)
    assert seconds[21] is None  # what comes before the first step comes once
    # What is left of an epoch, then 40 s for each; at first nobody knows what happens in between.
    assert seconds[30] == pytest.approx(70) and seconds[31] == pytest.approx(9 + 6 * 40)
    for step in range(31, 101):
        epochs = 10 - -(-step // 10)
        assert seconds[step] == pytest.approx(40 * epochs + -step % 10)


def errors_of_time_left(durations: list[float], steps_per_epoch: int, minutes: float) -> list[float]:
    """How far the estimate is from the truth, as a share of it, from the fifth minute to the fifth last one.

    The seconds are stretched so that the run takes ``minutes``.
    """
    stretched = np.array(durations[1:]) * 60 * minutes / sum(durations[1:])
    times = np.concatenate([[0.0], np.cumsum(stretched)])
    now = [0.0]
    left = TimeLeft(steps_per_epoch, clock=lambda: now[0])
    errors = []
    for step, passed in enumerate(times, start=1):
        now[0] = passed
        estimate, truth = left(step, len(times)), times[-1] - passed
        if passed >= 300 and truth >= 300:
            assert estimate is not None
            errors.append(estimate / truth - 1)
    return errors


def seconds_of_steps(epochs: int, steps_per_epoch: int, refresh: float, first_refresh: float) -> list[float]:
    """Steps that vary by a fifth, refreshes, and a checkpoint of ten steps' time ten times a run."""
    rng = np.random.default_rng(0)
    seconds = rng.gamma(25.0, 1 / 25.0, epochs * steps_per_epoch)
    starts = np.arange(epochs) * steps_per_epoch
    seconds[starts[1:]] += refresh * rng.gamma(25.0, 1 / 25.0, epochs - 1)
    seconds[starts[1]] += first_refresh
    seconds[starts[epochs // 10 :: epochs // 10]] += 10.0
    return [float(value) for value in seconds]


# Epochs, steps of each, refreshes in the time of a step: presets cpu and gpu as benchmarks/presets.py has
# measured them, with a first refresh that computes all windows; and a paper's, longer than its epoch.
@pytest.mark.parametrize(
    ("epochs", "steps_per_epoch", "refresh", "first_refresh"),
    [(40, 250, 6.0, 100.0), (600, 100, 0.1, 60.0), (600, 30, 40.0, 0.0)],
)
@pytest.mark.parametrize("minutes", [30, 60])
def test_time_left_is_right_after_five_minutes(
    epochs: int, steps_per_epoch: int, refresh: float, first_refresh: float, minutes: float
) -> None:
    durations = seconds_of_steps(epochs, steps_per_epoch, refresh, first_refresh)
    errors = errors_of_time_left(durations, steps_per_epoch, minutes)
    assert len(errors) > 100 and np.abs(errors).max() < 0.1


def test_time_left_after_a_pause() -> None:
    """A machine that slept for an hour does not count on sleeping again."""
    now = [0.0]
    left = TimeLeft(50, clock=lambda: now[0])
    for step in range(1, 1001):
        now[0] += 3600.0 if step == 130 else 1.0
        seconds = left(step, 1000)
        if step > 140:
            assert seconds == pytest.approx(1000 - step, rel=0.4)
        if step > 300:
            assert seconds == pytest.approx(1000 - step)


def test_before_the_end_of_an_epoch_time_left_is_a_lower_bound() -> None:
    now = [0.0]
    left = TimeLeft(4, clock=lambda: now[0])
    said = []
    for step in range(1, 9):
        now[0] += 60.0
        said.append(left.words(step, 8))
    assert said[:4] == ["-", "at least 6 min 00 s", "at least 5 min 00 s", "at least 4 min 00 s"]
    assert said[4:] == ["3 min 00 s", "2 min 00 s", "1 min 00 s", "0 s"]


def test_time_left_of_epochs_of_one_step() -> None:
    now = [0.0]
    left = TimeLeft(1, clock=lambda: now[0])
    for step in range(1, 6):
        now[0] += 2.0
        assert left(step, 5) == (None if step == 1 else 2.0 * (5 - step))
