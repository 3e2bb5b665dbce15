"""How the processes of a run end: without threads of their group, and with their own exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from process_files import group_threads, mapped_frames
from tiny_runs import tiny_config

from beacon.training import run as training_run
from beacon.training import train
from beacon.training.config import TrainConfig
from beacon.training.trainer import StepEvent, Trainer

LEAVES = "import atexit, sys; from beacon.processes import leave; atexit.register(print, 'the end'); "


class Looking(Trainer):
    """Keeps what threads the group and what frames the process has while the processes train."""

    threads: tuple[str, ...] = ()
    frames: frozenset[tuple[str, ...]] = frozenset()

    def run(self, **options: object) -> Path:  # type: ignore[override]
        """Train, then look."""
        checkpoint = super().run(**options)  # type: ignore[arg-type]
        Looking.threads = tuple(group_threads())
        Looking.frames = frozenset(mapped_frames(Path("/proc/self")))
        return checkpoint


def work(rank: int, meeting: str, config: TrainConfig, folder: str) -> None:
    """One of two processes of a run."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"BEACON_RENDEZVOUS": meeting, "GLOO_SOCKET_IFNAME": "lo"}
    training_run.Trainer = Looking  # type: ignore[misc]
    train(config, Path(folder) / "run", listener=ignore)
    found = (Looking.threads, tuple(group_threads()), sorted(Looking.frames))
    torch.save(found, Path(folder) / f"{rank}.pt")


def ignore(event: StepEvent) -> None:
    """Says nothing about a step."""


def test_processes_share_frames_and_leave_no_thread_of_their_group(
    source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config("beacon", source, target)
    torch.multiprocessing.spawn(work, (f"file://{tmp_path / 'meeting'}", config, str(tmp_path)), nprocs=2)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for during, after, _ in found:
        assert during and not after
    assert found[0][2] == found[1][2] != []  # both have the same memory


@pytest.mark.parametrize("code", [0, 1])
def test_leaving_writes_everything_and_keeps_the_exit_code(code: int) -> None:
    said = subprocess.run(
        [sys.executable, "-c", f"{LEAVES} print('done'); sys.stderr.write('why'); leave({code})"],
        capture_output=True,
        text=True,
    )
    assert (said.returncode, said.stdout, said.stderr) == (code, "done\nthe end\n", "why")


def test_leaving_outlives_a_reader_that_went_away() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", f"{LEAVES} print('done'); sys.stdin.read(); leave(0)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # so that it notices at its end
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.close()
        process.stdin.close()
        assert process.wait() == 0
