"""Processes with limits, forked from one that has imported everything: a start costs milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from soak import faults
from soak.campaign import lane_number

PRELOAD = [
    "av",
    "beacon.cli.data",
    "beacon.cli.data_tables",
    "beacon.cli.export",
    "beacon.cli.report",
    "beacon.cli.train",
    "beacon.cli.verify",
    "beacon.cli.weights",
    "beacon.data.checking",
    "beacon.data.converting",
    "beacon.data.inspection_page",
    "beacon.serving.export",
    "beacon.training.run",
    "beacon.training.trainer",
    "diffusers.schedulers.scheduling_ddim",
    "diffusers.schedulers.scheduling_ddpm",
    "pyarrow.parquet",
    "sklearn.neighbors",
    "soak.configurations",
    "soak.data",
    "soak.jobs",
    "soak.mutations",
    "soak.warm",
    "tensorboard.summary.writer.record_writer",
    "torch.utils.tensorboard",
    "zarr",
]
LEAST_PROGRESS = 0.2  # seconds of a processor
SIMULATION = ["beacon.sim.evaluate", "beacon.sim.generate", "robosuite"]


@dataclass(frozen=True)
class Said:
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def one_line(self) -> bool:
        """Whether the complaint is one line of ours. Before it may be warnings, and how far the work was."""
        *before, last = self.err.splitlines() or [""]
        known = all(line.startswith("beacon: warning: ") or line.endswith("%") for line in before)
        return known and last.startswith("beacon: ") and "Traceback" not in self.err

    @property
    def end(self) -> str:
        """The last words, for a problem."""
        words = (self.err.strip() or self.out.strip())[-1500:]
        return f"exit code {self.code}: {words}"


def context(*, simulation: bool = False) -> Any:
    """Where processes come from.

    Args:
        simulation: also import the simulator beforehand, which takes some seconds once.
    """
    faults.install()  # the one process from which all others come is started once
    chosen = multiprocessing.get_context("forkserver")
    chosen.set_forkserver_preload([*PRELOAD, *(SIMULATION if simulation else [])])
    return chosen


def start(process: BaseProcess) -> BaseProcess:
    """Start a process that its own lane alone asks how it ended.

    Whenever one is started, `multiprocessing` looks at all others; two that look at once lose the exit code.
    """
    process.start()
    multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
    return process


def run_cli(arguments: list[str]) -> Said:
    """A command line in this process; all that reaches its descriptors is caught, also from C."""
    from beacon.cli.main import main

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            code = main(arguments)
        except BaseException:
            traceback.print_exc()
            code = -1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, number in zip(kept, (1, 2), strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 20).decode(errors="replace"))
    return Said(code, *texts)


def use_own_streams() -> None:
    """Standard streams on the descriptors themselves: a forked process may have somebody else's."""
    sys.stdout = os.fdopen(1, "w", closefd=False, errors="backslashreplace")
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")


@dataclass(frozen=True)
class Answer:
    """What became of a call in a worker."""

    value: Any = None
    problem: str | None = None  # the worker died, or was too slow
    memory: float = 0.0  # MB, the most that the worker has had beyond what it began with


class Worker:
    """A process that does one call at a time; one that dies or hangs is replaced.

    Args:
        memory: MB of address space beyond what it starts with.
        seconds: by the clock, in which a call that goes on has to use a processor at least for a moment.
        cpu_seconds: that a call may take of a processor.
        calls: after which the process is replaced, so that its memory is that of few calls.
    """

    def __init__(
        self, *, memory: int = 4096, seconds: float = 300.0, cpu_seconds: float = 30.0, calls: int = 200
    ) -> None:
        self.memory, self.seconds, self.cpu_seconds, self.calls = memory, seconds, cpu_seconds, calls
        self._process: BaseProcess | None = None
        self._connection: Any = None
        self._done = 0

    def call(self, function: Callable[..., Any], *arguments: Any) -> Answer:
        """What ``function(*arguments)`` gives."""
        if self._process is None:
            self._start()
        self._connection.send((function, arguments))
        used = -1.0
        while not self._connection.poll(self.seconds):  # on a busy machine only the processor's time counts
            assert self._process is not None and self._process.pid is not None
            before, used = used, processor_seconds(self._process.pid)
            if used < before + LEAST_PROGRESS:
                self.close(kill=True)
                return Answer(problem=f"hangs for {self.seconds:g} s")
        try:
            value, problem, memory = self._connection.recv()
        except (EOFError, ConnectionResetError):
            assert self._process is not None
            self._process.join()
            code = self._process.exitcode
            self.close(kill=True)
            if code == -signal.SIGXCPU:
                return Answer(problem=f"not done after {self.cpu_seconds:g} s of a processor")
            return Answer(problem=f"the process died with exit code {code}")
        self._done += 1
        if self._done >= self.calls:
            self.close()
        return Answer(value, problem, memory)

    def _start(self) -> None:
        chosen = context()
        self._connection, theirs = chosen.Pipe()
        self._process = start(chosen.Process(target=_serve, args=(theirs, self.memory, self.cpu_seconds)))
        theirs.close()
        self._done = 0

    def close(self, *, kill: bool = False) -> None:
        """End the process."""
        if self._process is None:
            return
        self._connection.close()
        if kill:
            self._process.kill()
        self._process.join()
        self._process = None


class Workers:
    """A worker for every lane.

    Args:
        cpu_seconds: that a call may take of a processor.
    """

    def __init__(self, *, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        self._workers: dict[int, Worker] = {}

    @property
    def here(self) -> Worker:
        """That of this lane."""
        return self._workers.setdefault(lane_number(), Worker(cpu_seconds=self._cpu_seconds))

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.close()


def processor_seconds(process: int) -> float:
    """Time of a processor that a process and its living children have had."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has ended
        return 0.0
    ticks = sum(int(value) for value in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_seconds(int(child)) for child in children)


def _serve(connection: Any, memory: int, cpu_seconds: float) -> None:
    import warnings

    use_own_streams()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (memory << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")  # of libraries; the command line has its own
    began = _peak()
    with suppress(EOFError):
        while True:
            function, arguments = connection.recv()
            value, problem = None, None
            used = sum(os.times()[:2])
            resource.setrlimit(resource.RLIMIT_CPU, (int(used + cpu_seconds) + 1, resource.RLIM_INFINITY))
            try:
                value = function(*arguments)
            except BaseException:
                problem = traceback.format_exc()[-1500:]
            connection.send((value, problem, _peak() - began))


def _peak() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
