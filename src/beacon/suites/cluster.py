"""Experiments on a Ray cluster instead of processes of this machine. The nodes share both folders."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from types import TracebackType
from typing import Any

from beacon.errors import RunError, UserError
from beacon.processes import Event, Work

RETRIES = 3  # of a task whose node or process has died: it goes on from its run's last checkpoint


class RayTasks:
    """The same as `Processes`, with Ray's tasks; they say when they end, not how far they are."""

    def __init__(self, count: int | None, threads: int | None = 1, gpus: float = 0.0) -> None:
        """Find the cluster, or start one on this machine.

        Args:
            count: tasks at a time; None: as many as the cluster has room for.
            threads: of every task.
            gpus: share of a GPU that a task has.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise UserError("--ray needs Ray; pip install 'beacon-cotraining[cluster]'") from None
        self._ray, self._mine = ray, not ray.is_initialized()
        if self._mine:
            # RAY_ADDRESS names the cluster; without it, Ray starts on this machine.
            try:
                ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = os.environ.get("RAY_ADDRESS")
                what = f"RAY_ADDRESS {where} cannot be reached" if where else "Ray does not start here"
                raise RunError(f"--ray: {what}: {' '.join(str(error).split())}") from None
        resources = ray.cluster_resources()
        self.count = count or max(1, int(resources.get("GPU", 0) / gpus if gpus else resources.get("CPU", 1)))
        self._task = ray.remote(num_cpus=threads or 1, num_gpus=gpus, max_retries=RETRIES)(_work)
        self._threads = threads
        self._running: dict[str, Any] = {}

    def __enter__(self) -> RayTasks:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running.values():
            self._ray.cancel(task, force=True)
        if self._mine:
            self._ray.shutdown()

    @property
    def free(self) -> int:
        """How many more may be started."""
        return self.count - len(self._running)

    @property
    def names(self) -> list[str]:
        """Of those that run."""
        return list(self._running)

    def start(self, name: str, work: Work, job: Any) -> None:
        """Begin ``work(job, tell)`` somewhere."""
        self._running[name] = self._task.remote(work, job, self._threads)

    def events(self) -> list[Event]:
        """Which tasks ended since the last call."""
        events = []
        for name, task in list(self._running.items()):
            ended, _ = self._ray.wait([task], timeout=0)
            if not ended:
                continue
            del self._running[name]
            try:
                state, value = self._ray.get(task)
            except self._ray.exceptions.RayError as error:
                why = f"its task ended early ({type(error).__name__}); the same command goes on with it"
                state, value = "failed", ("RunError", why)
            events.append(Event(name, state, value))
        return events


def _work(work: Work, job: Any, threads: int | None) -> tuple[str, Any]:
    """On a node."""
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        import torch

        torch.set_num_threads(threads)
    try:
        return "done", work(job, lambda *_: None)
    except (UserError, RunError) as error:
        return "failed", (type(error).__name__, str(error))
    except Exception as error:
        return "failed", ("RunError", f"{type(error).__name__}: {error}")
