"""What a run would take: a few real steps on the real data, before anything is started."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from beacon.methods import Measurements
from beacon.methods.base import Indices, ReferencePolicy
from beacon.runs import RunFolder
from beacon.training.config import TrainConfig
from beacon.training.summary import summarize_run
from beacon.training.trainer import Trainer
from beacon.training.window_measurer import WindowMeasurer

SAMPLE = 256  # windows that are measured for the time of a refresh
LARGEST_SHARE = 20  # steps of an epoch that are rehearsed at most
FEWEST = 2  # steps of the first epoch, of which the first makes room in memory, and of reference policies


@dataclass(frozen=True)
class Expectation:
    """What a run would have and take on this machine."""

    summary: str  # data, method, device, steps
    parameters: int
    checkpoint_bytes: int
    memory_bytes: int  # at its peak
    memory_of: str  # whose
    steps: int
    measured_steps: int
    seconds_per_step: float
    seconds_per_refresh: float  # between two epochs, once a run is under way
    first_refreshes: float  # seconds of what is done before the third epoch
    refreshes: int  # as long as seconds_per_refresh
    reference_steps: int

    @property
    def reference_seconds(self) -> float:
        """Of training policies for comparison."""
        return self.reference_steps * self.seconds_per_step

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        refreshes = self.first_refreshes + self.refreshes * self.seconds_per_refresh
        return self.steps * self.seconds_per_step + refreshes + self.reference_seconds


def rehearse(config: TrainConfig, seconds: float = 10.0) -> Expectation:
    """Measure a few steps and refreshes of a run, and leave nothing behind.

    Args:
        config: of the run.
        seconds: how long to measure steps at most, though never fewer than four.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights that mean nothing here
        trainer = _Rehearsal(config, RunFolder(Path(folder)))
        return trainer.rehearse(seconds)


class _Rehearsal(Trainer):
    """A trainer that measures a sample of windows in place of all, and hardly trains reference policies."""

    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        self.left_out = 0.0  # seconds that a refresh would take beyond what it took here
        self.reference_steps = 0
        super().__init__(config, folder)

    def rehearse(self, seconds: float) -> Expectation:
        options = self.config.optimization
        epochs = min(3, options.epochs)
        refreshes, steps = [], []
        for epoch in range(epochs):
            refreshes.append(self._time_refresh(epoch))
            steps += self._time_steps(epoch, seconds / epochs)
        counted = steps[1:] or steps  # the first one makes room in memory
        peak, memory_of = _peak_memory(self.device)
        return Expectation(
            summary=summarize_run(self.config, self.windows, self.domains, self.device, self.policy),
            parameters=sum(parameter.numel() for parameter in self.policy.parameters()),
            checkpoint_bytes=self._checkpoint_bytes(),
            memory_bytes=peak,
            memory_of=memory_of,
            steps=options.steps,
            measured_steps=len(counted),
            seconds_per_step=float(np.mean(counted)),
            seconds_per_refresh=refreshes[-1],
            first_refreshes=sum(refreshes[:-1]),
            refreshes=options.epochs - epochs + 1,
            reference_steps=self.reference_steps,
        )

    def _time_refresh(self, epoch: int) -> float:
        self.left_out, started = 0.0, time.perf_counter()
        self.method.between_epochs(epoch)
        return max(0.0, time.perf_counter() - started + self.left_out)

    def _time_steps(self, epoch: int, seconds: float) -> list[float]:
        self.policy.train()
        batches = self.method.batches(epoch)[:LARGEST_SHARE]
        times: list[float] = []
        started = time.perf_counter()
        for offset, batch in enumerate(self.loader(batches)):
            self._step(batch, batches[offset], epoch * self.config.optimization.steps_per_epoch + offset)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            times.append(time.perf_counter() - started - sum(times))
            if len(times) >= (1 if epoch else FEWEST) and sum(times) > seconds:
                break
        return times

    def _measured(
        self, measurer: WindowMeasurer, index: Indices, draws: int, seed: tuple[int, ...]
    ) -> Measurements:
        started = time.perf_counter()
        sample = super()._measured(measurer, index[:SAMPLE], draws, seed)
        took = time.perf_counter() - started
        rows = torch.from_numpy(np.resize(np.arange(min(SAMPLE, len(index))), len(index))).to(self.device)
        self.left_out += took * (len(index) / min(SAMPLE, len(index)) - 1)
        return Measurements(sample.losses[rows], sample.vision[rows], sample.observation[rows])

    def _fit_reference(self, name: str, members: Indices, steps: int) -> ReferencePolicy:
        started = time.perf_counter()
        reference = super()._fit_reference(name, members, FEWEST)
        self.reference_steps += steps
        self.left_out -= time.perf_counter() - started
        return reference

    def _checkpoint_bytes(self) -> int:
        state = sum(tensor.nbytes for tensor in self.policy.state_dict().values())
        moments = 2 * sum(parameter.nbytes for parameter in self.policy.parameters())
        return int(2 * state + moments + sum(array.nbytes for array in self.method.state_dict().values()))


def _peak_memory(device: torch.device) -> tuple[int, str]:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), f"of {device}"
    resource: Any
    try:
        import resource
    except ImportError:  # Windows
        return 0, "unknown here"
    unit = 1 if sys.platform == "darwin" else 1024
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return unit * peak, "of this process, images included"
