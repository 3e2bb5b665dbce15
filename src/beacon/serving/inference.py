"""Inference off the event loop: one thread that computes the waiting requests of several clients together."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.errors import RunError, UserError
from beacon.policy.observations import PolicyInput, concatenate_inputs
from beacon.policy.trained import TrainedPolicy
from beacon.serving.metrics import ServerMetrics
from beacon.serving.options import Limits

log = logging.getLogger("beacon.serving")

TRIALS, TRIAL_SECONDS = 3, 2.0  # of one number of threads, when the best one is looked for
HOPELESS = 4.0  # times slower at the first trial than the best so far: no second one
INTERNAL = "the server failed to compute this; its log says why"


class Answer(NamedTuple):
    """Actions of one request, and how long they took."""

    actions: NDArray[np.float32]  # (B, horizon, A)
    seconds: float  # of the inference, which other requests may have shared


@dataclass(eq=False)
class Job:
    """One request on its way through the thread."""

    histories: dict[str, NDArray[Any]]  # (B, T, ...)
    generators: Sequence[torch.Generator]  # one a row
    alone: bool  # computed by itself on one thread: the same bits as in an evaluation of the run folder
    wanted: Callable[[], bool]  # whether the client is still there
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Answer] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()

    def give(self, result: Answer | Exception) -> None:
        """Hand the result to the event loop."""
        self.loop.call_soon_threadsafe(self._set, result)

    def _set(self, result: Answer | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class InferenceThread:
    """The thread that computes. While it is busy requests gather, and the next turn takes them together."""

    def __init__(
        self, policy: TrainedPolicy, limits: Limits, metrics: ServerMetrics, threads: int | None = None
    ) -> None:
        """Start the thread; it warms up the policy before `ready` returns.

        Args:
            policy: what computes.
            limits: ``batch`` says how many requests are computed together.
            metrics: where batch sizes and times are counted.
            threads: of torch; None: the faster of one and all, measured.
        """
        self.threads = threads or 1
        self.trials: dict[int, float] = {}  # threads -> seconds of a chunk, if it was measured
        self._policy, self._limits, self._metrics = policy, limits, metrics
        self._asked_threads = threads
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._warm = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def ready(self) -> None:
        """Wait until the policy has computed once; raises what went wrong."""
        self._warm.wait()
        if self._failure is not None:
            raise self._failure

    def submit(self, job: Job) -> asyncio.Future[Answer]:
        """Put a request into the queue."""
        self._jobs.put(job)
        return job.answer

    def stop(self) -> None:
        """Compute what is waiting, then end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self.threads = self._asked_threads or self._measure()
            torch.set_num_threads(self.threads)
            self._chunk_seconds()
        except Exception as error:
            self._failure = error
        finally:
            self._warm.set()
        ended = self._failure is not None
        while not ended:
            jobs, ended = self._gather()
            for group in _groups(jobs):
                self._compute(group)

    def _gather(self) -> tuple[list[Job], bool]:
        """Wait for a request; take those that wait beside it."""
        jobs: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= self._limits.batch:
                return jobs, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _compute(self, jobs: list[Job]) -> None:
        ready: list[tuple[Job, PolicyInput]] = []
        for job in jobs:
            if not job.wanted():
                job.give(RunError("the client is gone"))
                continue
            try:
                ready.append((job, self._policy.prepare(job.histories, axes="batch-history")[0]))
            except Exception as error:
                job.give(_told(error))
        if not ready:
            return
        began = time.perf_counter()
        try:
            if ready[0][0].alone:
                torch.set_num_threads(1)
            generators = [generator for job, _ in ready for generator in job.generators]
            actions = self._policy.sample(concatenate_inputs([part for _, part in ready]), generators)
        except Exception as error:
            for job, _ in ready:
                job.give(_told(error))
            return
        finally:
            if ready[0][0].alone:
                torch.set_num_threads(self.threads)
        seconds = time.perf_counter() - began
        self._metrics.count_batch(len(ready), seconds)
        start = 0
        for job, part in ready:
            job.give(Answer(actions[start : start + part.size], seconds))
            start += part.size

    def _measure(self) -> int:
        """The faster of one thread and all of them; with a busy neighbour, more can be ten times slower."""
        most = torch.get_num_threads()
        for threads in sorted({1, most}):
            torch.set_num_threads(threads)
            first = self._chunk_seconds()  # memory and kernels are set up
            if self.trials and first > HOPELESS * min(self.trials.values()):
                self.trials[threads] = first
                break
            times: list[float] = []
            while len(times) < TRIALS and sum(times) < TRIAL_SECONDS:
                times.append(self._chunk_seconds())
            self.trials[threads] = min(times)
        return min(self.trials, key=lambda threads: self.trials[threads])

    def _chunk_seconds(self) -> float:
        policy, spec = self._policy, self._policy.spec
        zeros: dict[str, Any] = {name: np.zeros(shape, np.uint8) for name, shape in spec.cameras.items()}
        # The middle of what was seen in training.
        zeros |= {name: policy.normalization.proprio[name].offset.numpy() for name in spec.proprio}
        began = time.perf_counter()
        inputs, _ = policy.prepare(zeros, axes="step")
        policy.sample(inputs, [torch.Generator().manual_seed(0)])
        return time.perf_counter() - began


def _groups(jobs: list[Job]) -> list[list[Job]]:
    """What is computed together: all single requests; every batch of a client alone."""
    shared = [job for job in jobs if not job.alone]
    return [[job] for job in jobs if job.alone] + ([shared] if shared else [])


def _told(error: Exception) -> Exception:
    """What a client is told: our own errors as they are, others without what they say of the server."""
    if isinstance(error, UserError | RunError):
        return error
    log.error("inference failed", exc_info=error)
    return RunError(INTERNAL)
