"""The trainer is killed at random moments and resumed: it ends as the run that was never interrupted."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tiny_runs import TINY_OPTIONS, assert_same_runs, metrics

from beacon.cli.main import main

EPOCHS = 12
PRELOAD = [
    "test_kill",
    "beacon.cli.train",
    "beacon.training.run",
    "beacon.training.trainer",
    "diffusers.schedulers.scheduling_ddim",
    "diffusers.schedulers.scheduling_ddpm",
    "tensorboard.summary.writer.record_writer",
    "torch.utils.tensorboard",
]


def options(source: Path, target: Path, out: Path, *more: str) -> list[str]:
    return [
        *("--source", str(source), "--target", str(target), "--out", str(out), "--validation", str(target)),
        *("--steps", str(EPOCHS * 4), "--steps-per-epoch", "4", "--batch-size", "8", "--log-every", "1"),
        *("--checkpoint-every", "1", "--keep", "3", "--device", "cpu", "--threads", "1", "--seed", "11"),
        *TINY_OPTIONS,
        *more,
    ]


def run_cli(arguments: list[str], errors: Path) -> None:
    """The command line, in a process of its own."""
    with errors.open("w") as sys.stderr:
        os._exit(main(arguments))


def start(arguments: list[str], errors: Path) -> BaseProcess:
    """Begin a command line. Its process is forked from one that has imported torch once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=run_cli, args=(arguments, errors))
    process.start()
    return process


def kill(process: BaseProcess, ready: Callable[[], bool], delay: float) -> bool:
    """SIGKILL a process some time after it has come so far; whether it was still alive."""
    until = time.monotonic() + 900
    while process.is_alive() and not ready():
        assert time.monotonic() < until, "the trainer does not start"
        time.sleep(0.0005)
    time.sleep(delay)
    process.kill()
    process.join()
    return process.exitcode == -9


def newest(run: Path) -> str:
    """The name of the newest checkpoint, whole or in the making."""
    return max((p.name.strip(".") for p in run.glob("checkpoints/*") if p.name != "last"), default="")


@pytest.mark.parametrize(
    ("more", "moments"),
    [
        (
            ["--method", "beacon-paper", "--refresh-every", "2"],
            ["start", "saving", "random", "saving", "random", "random"],
        ),
        (["--method", "beacon"], ["random", "saving", "random"]),  # reuses steps, draws by weight
    ],
    ids=["beacon-paper", "beacon"],
)
def test_killed_and_resumed_is_never_interrupted(
    more: list[str], moments: list[str], source: Path, target: Path, tmp_path: Path
) -> None:
    rng = random.Random(" ".join(more))
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert main(["train", *options(source, target, whole, *more)]) == 0
    assert len(metrics(whole, "train")) == EPOCHS * 4

    kills = 0
    for moment in moments:
        # Everything said again, or only where: both go on with the run.
        again = (
            options(source, target, run, *more)
            if rng.random() < 0.5 or not run.exists()
            else ["--out", str(run)]
        )
        written = (run / "metrics.jsonl").stat().st_mtime_ns if (run / "metrics.jsonl").exists() else 0
        process = start(["train", *again, "--resume"], tmp_path / "errors.txt")
        last = newest(run)

        def has_begun(written: int = written) -> bool:
            file = run / "metrics.jsonl"
            return file.exists() and file.stat().st_mtime_ns > written

        def is_saving(last: str = last) -> bool:
            return any(run.glob("checkpoints/.*.partial")) or newest(run) > last

        if moment == "start":  # before the first checkpoint
            kills += kill(process, (run / "config.yaml").exists, 0.0)
        elif moment == "saving":  # while a checkpoint is being written
            kills += kill(process, is_saving, rng.uniform(0, 0.005))
        else:
            kills += kill(process, has_begun, rng.uniform(0, 0.3))
        assert (tmp_path / "errors.txt").read_text() == ""
    assert kills >= 2  # a fast machine may be done before the last ones
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert_same_runs(whole, run)
