"""A process in a session of its own, to be killed."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from beacon.processes import end_with_parent
from soak.sandbox import Said, context, processor_seconds, start, use_own_streams

ENDLESS = 600.0  # seconds after which a command that should end counts as hung


class Detached:
    """A process in a session of its own, to be killed.

    Args:
        work: importable by name, or a picklable object.
        arguments: of it.
        log: a file for what it prints.
    """

    def __init__(self, work: Callable[..., Any], *arguments: Any, log: Path) -> None:
        self.log = log
        self.process: BaseProcess = start(context().Process(target=_detached, args=(work, arguments, log)))

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether it has ended."""
        self.process.join(seconds)
        return self.process.exitcode is not None

    def wait_for_work(self, seconds: float) -> bool:
        """Wait until it has had so much time of a processor; whether it ended before.

        On a busy machine moments that are even in this time are even in its work, and those of the clock not.
        """
        assert self.process.pid is not None
        while processor_seconds(self.process.pid) < seconds:
            if self.wait(0.004):
                return True
        return False

    @property
    def worked(self) -> float:
        """Seconds of a processor that it has had, with its children, after it has ended by itself."""
        return float(self.log.with_suffix(".worked").read_text())

    def end(self) -> Said:
        """Wait until it ends by itself."""
        if not self.wait(ENDLESS):
            self.kill()
        return Said(-9999 if self.process.exitcode is None else self.process.exitcode, "", self.printed)

    @property
    def printed(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> bool:
        """SIGKILL it, and it alone; whether it was still alive."""
        self.process.kill()
        self.process.join()
        return self.process.exitcode == -signal.SIGKILL

    def orphans(self, patience: float = 60.0) -> set[int]:
        """Processes that it started and that outlive it by so many seconds."""
        assert self.process.pid is not None
        until = time.monotonic() + patience
        while (left := _session(self.process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return left


def _detached(work: Callable[..., Any], arguments: tuple[Any, ...], log: Path) -> None:
    os.setsid()
    end_with_parent()  # an interrupted soak leaves nothing behind
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    use_own_streams()
    try:
        code = int(work(*arguments) or 0)
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    log.with_suffix(".worked").write_text(str(sum(os.times()[:4])))
    os._exit(code)


def _session(leader: int) -> set[int]:
    """Living processes of a session."""
    members = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            members.add(int(folder.name))
    return members
