"""Jobs side by side, each in a process of its own that says how far it is."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Protocol

from beacon.errors import RunError, UserError

POLL = 0.25  # seconds
GOES_ON = "; the same command goes on with it"
Work = Callable[[Any, Callable[..., None]], Any]  # (job, tell) -> result; must be importable by name


@dataclass(frozen=True)
class Event:
    """What a process said: how far it is, its result, or why it failed."""

    name: str
    kind: Literal["progress", "done", "failed"]
    value: Any


class Workers(Protocol):
    """Whoever does jobs side by side."""

    @property
    def free(self) -> int:
        """How many more may be started."""
        ...

    @property
    def names(self) -> list[str]:
        """Of those that run."""
        ...

    def start(self, name: str, work: Work, job: Any) -> None:
        """Begin ``work(job, tell)``."""
        ...

    def events(self) -> list[Event]:
        """What was said since the last call."""
        ...


class Processes:
    """Up to ``count`` processes; leaving the block stops those that still run.

    Args:
        count: how many at a time.
        threads: of torch in each; None: as torch chooses.
        niceness: by how much their priority is lower than that of this process.
    """

    def __init__(self, count: int, threads: int | None = 1, niceness: int = 0) -> None:
        self.count, self.threads, self.niceness = count, threads, niceness
        self._context = get_context("spawn")  # OpenGL and numba do not survive a fork
        self._running: dict[str, tuple[Any, Any]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            process.join()

    @property
    def free(self) -> int:
        """How many more may be started."""
        return self.count - len(self._running)

    @property
    def names(self) -> list[str]:
        """Of those that run."""
        return list(self._running)

    def start(self, name: str, work: Work, job: Any) -> None:
        """Begin ``work(job, tell)``."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work,
            args=(work, job, self.threads, self.niceness, theirs),
            name=name,
            daemon=True,
        )
        process.start()
        theirs.close()
        self._running[name] = (process, ours)

    def events(self) -> list[Event]:
        """What was said since the last call, of every process the newest progress only."""
        events: list[Event] = []
        for name, (process, connection) in list(self._running.items()):
            said: list[Event] = []
            try:
                while connection.poll():
                    kind, value = connection.recv()
                    said.append(Event(name, kind, value))
            except EOFError:
                if not said or said[-1].kind == "progress":
                    text = f"its process died (killed, or out of memory){GOES_ON}"
                    said.append(Event(name, "failed", ("RunError", text)))
            events += said[-1:]
            if said and said[-1].kind != "progress":
                process.join()
                connection.close()
                del self._running[name]
        return events


def failure(event: Event) -> UserError | RunError:
    """The error of a process that failed, to be raised or shown."""
    kind, text = event.value
    return (UserError if kind == "UserError" else RunError)(f"{event.name}: {text}")


def end_with_parent() -> None:
    """Let this worker process end at once when its parent has ended, also when that was killed."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()  # a pipe that breaks with the parent: nothing is polled
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def leave(code: int) -> NoReturn:
    """End this process with an exit code, when all is written, without the end of the interpreter.

    For one of several that train together: threads of torch, gloo and NCCL that are left, as after a failure
    of another process, may ask for the interpreter while it ends. That aborts the process, also one that is
    done.

    Args:
        code: that `sys.exit` would be given.
    """
    atexit._run_exitfuncs()  # files of loggers, temporary folders, worker processes
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader went away, or it is closed
            stream.flush()
    os._exit(code)


def leave_real_time() -> None:
    """Give all threads of this process the ordinary scheduling back.

    Run as root, the encoder SVT-AV1 makes the thread that opens it and its own threads real-time ones of the
    highest priority. They would take the processors from everything else on the machine, and processes that
    are started later would inherit that.
    """
    if not hasattr(os, "sched_setscheduler"):  # not Linux
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended, or is not ours to change
            if os.sched_getscheduler(int(task.name)) in (os.SCHED_FIFO, os.SCHED_RR):
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))


def _work(work: Work, job: Any, threads: int | None, niceness: int, connection: Any) -> None:
    """A process: only the parent hears Ctrl-C, and then stops this one."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness:
        os.nice(niceness)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    last = [0.0]

    def tell(*value: Any) -> None:
        if time.monotonic() - last[0] > POLL:
            last[0] = time.monotonic()
            connection.send(("progress", value))

    with suppress(BrokenPipeError):
        try:
            connection.send(("done", work(job, tell)))
        except (UserError, RunError) as error:
            connection.send(("failed", (type(error).__name__, str(error))))
        except Exception as error:
            connection.send(("failed", ("RunError", f"{type(error).__name__}: {error}")))
