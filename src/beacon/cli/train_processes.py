"""``beacon train --processes N``: the same command in N processes of this machine that train together."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from beacon.errors import UserError
from beacon.processes import end_with_parent, leave

GRACE = 10.0  # seconds in which the others say why they end, once one has ended
RENDEZVOUS = "BEACON_RENDEZVOUS"  # read by beacon.training.ranks


def is_one_of_several() -> bool:
    """Whether this process was started as one of several that train together, here or by torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def is_quiet() -> bool:
    """Whether another process of the run speaks to the user."""
    return is_one_of_several() and os.environ["RANK"] != "0"


def check_processes(count: int, batch_size: int) -> None:
    """Refuse a number of processes among which mini-batches cannot be divided."""
    if batch_size % count:
        raise UserError(f"--processes {count}: must divide --batch-size {batch_size}")


def train_together(arguments: list[str], count: int, goes_on: str) -> int:
    """Run ``beacon train`` in ``count`` processes; when one of them ends, so do all. Returns the exit code.

    Args:
        arguments: of the command.
        count: of the processes.
        goes_on: the command that goes on with the run.
    """
    context = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="beacon-") as folder:
        meeting = f"file://{Path(folder) / 'rendezvous'}"
        processes: list[BaseProcess] = [
            context.Process(target=_train_one, args=(arguments, rank, count, meeting))
            for rank in range(count)
        ]
        for process in processes:
            process.start()
        try:
            _wait_for_all(processes)
        except KeyboardInterrupt:  # which the processes have heard as well
            _end(processes)
            return 130
        codes = [process.exitcode or 0 for process in processes]
    killed = _first_killed(codes)
    if killed is not None:
        rank, name = killed
        print(
            f"beacon: process {rank + 1} of {count} was ended by {name}, and the run with it; {goes_on} "
            "goes on from its last checkpoint",
            file=sys.stderr,
        )
        return 1
    return max(codes)


def _first_killed(codes: list[int]) -> tuple[int, str] | None:
    """The process that a signal ended, and the signal; None where all ended by themselves.

    When one is killed, the others may abort in the middle of an exchange with it, and we end those that
    are left: such signals name the culprit only where there is no other.
    """
    killed = [(rank, -code) for rank, code in enumerate(codes) if code < 0 and -code != signal.SIGTERM]
    if not killed:
        return None
    rank, number = min(killed, key=lambda ended: ended[1] == signal.SIGABRT)
    return rank, signal.Signals(number).name


def _wait_for_all(processes: list[BaseProcess]) -> None:
    running = list(processes)
    while running:
        wait([process.sentinel for process in running])
        running = [process for process in running if process.is_alive()]
        if any(process.exitcode for process in processes):  # failed, or was killed
            _end(processes)
            return


def _end(processes: list[BaseProcess]) -> None:
    """Let processes end by themselves for a moment, then end them."""
    until = time.monotonic() + GRACE
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    for process in processes:
        process.terminate()
        process.join(1.0)
        process.kill()
        process.join()


def _train_one(arguments: list[str], rank: int, count: int, meeting: str) -> None:
    """One of the processes; it ends with the command that has started it."""
    end_with_parent()
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        RENDEZVOUS: meeting,
    }
    # They are on one machine, whose name need not have an address.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    from beacon.cli.main import main

    leave(main(["train", *arguments]))
