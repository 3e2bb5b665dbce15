"""A command that is killed takes its workers with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from demonstrations import make_dataset

COMMAND = "from beacon.cli.main import entry; entry()"


def workers_of(parent: int) -> set[int]:
    """Worker processes whose parent this is."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == parent and b"spawn_main" in command:
            found.add(int(folder.name))
    return found


def alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("verb", ["generate", "evaluate", "train"])
def test_killed_commands_leave_no_workers(verb: str, tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "demos.hdf5")
    arguments = {
        "generate": ["lift", "--demos", "500", "--out", str(tmp_path / "lift.hdf5"), "--workers", "2"],
        "evaluate": [
            *("beacon.sim.policies:random_small", "--task", "lift", "--episodes", "2000"),
            *("--out", str(tmp_path / "result.json"), "--workers", "2"),
        ],
        # Killed while its only worker makes the task of an early look.
        "train": [
            *("--method", "source-only", "--source", str(data), "--out", str(tmp_path / "run")),
            *("--evaluate-every", "1", "--evaluate-task", "lift"),
        ],
    }
    count = 1 if verb == "train" else 2
    command = [sys.executable, "-c", COMMAND, verb, *arguments[verb]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 900
    while len(workers := workers_of(process.pid)) < count:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 300
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < until, "workers outlive their command"
        time.sleep(0.1)
