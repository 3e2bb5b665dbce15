"""Where the numbers of a run go: metrics.jsonl, TensorBoard, Weights & Biases, the progress bar."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beacon.errors import UserError
from beacon.methods import EpochReport
from beacon.runs import RunFolder
from beacon.training.config import TrainConfig
from beacon.training.tensorboard_writer import TensorBoardWriter

EVALUATION = "evaluation"  # the kind of what early looks saw


class RunningMeans:
    """Means over the steps since the last log line, overall and per domain, without waiting for a GPU."""

    def __init__(self, domains: tuple[str, ...], device: torch.device) -> None:
        self._domains = domains
        self._sums = torch.zeros(len(domains), 2, device=device)  # loss and count, per domain
        self._scalars: dict[str, list[Tensor]] = {}

    def add(self, losses: Tensor, domain: Tensor, **scalars: Tensor) -> None:
        """Losses (B,) of the samples of these domains (B,), and scalars of the step."""
        values = torch.stack([losses.detach(), torch.ones_like(losses)], dim=1)
        self._sums.index_add_(0, domain, values)
        for name, value in scalars.items():
            self._scalars.setdefault(name, []).append(value.detach())

    def take(self) -> dict[str, float]:
        """The means, and start anew."""
        result = {name: float(torch.stack(values).mean()) for name, values in self._scalars.items()}
        for name, (total, count) in zip(self._domains, self._sums.tolist(), strict=True):
            if count:
                result[f"loss/{name}"] = total / count
        self._sums.zero_()
        self._scalars.clear()
        return result


def check_loggers(config: TrainConfig) -> None:
    """Refuse a way of logging that is not installed, before any work is done."""
    if config.run.wandb is not None and find_spec("wandb") is None:
        raise UserError("--wandb: the package wandb is not installed; pip install wandb")


class Metrics:
    """Writes every number to all places that were asked for."""

    def __init__(self, folder: RunFolder, config: TrainConfig, resumed_at: int) -> None:
        self._folder = folder
        self._tensorboard = TensorBoardWriter(folder.path, resumed_at) if config.run.tensorboard else None
        self._wandb: Any = None
        if config.run.wandb is not None:
            import wandb

            self._wandb = wandb.init(
                project=config.run.wandb, dir=folder.path, config=config.to_dict(), resume="allow"
            )
            # Evaluations come later than their step, and W&B does not go back.
            self._wandb.define_metric(f"{EVALUATION}/*", step_metric=f"{EVALUATION}/step")

    def write(self, event: str, step: int, values: Mapping[str, float | str]) -> None:
        """A set of scalars at a gradient step.

        Args:
            event: ``train``, ``refresh``, ``validation`` or ``evaluation``.
            step: gradient steps done.
            values: what to write; only numbers go beyond metrics.jsonl.
        """
        self._folder.append_metrics(event, step, values)
        numbers = {f"{event}/{name}": value for name, value in values.items() if not isinstance(value, str)}
        if self._tensorboard is not None:
            for name, value in numbers.items():
                self._tensorboard.scalar(name, value, step)
        if self._wandb is not None and event == EVALUATION:
            self._wandb.log({**numbers, f"{EVALUATION}/step": step})
        elif self._wandb is not None:
            self._wandb.log(numbers, step=step)

    def write_refresh(
        self, epoch: int, step: int, report: EpochReport, domains: Mapping[str, NDArray[np.bool_]]
    ) -> None:
        """What a method did between epochs; histograms of the weights of every domain for TensorBoard."""
        self.write("refresh", step, {"epoch": epoch, **report.scalars})
        if self._tensorboard is not None and report.weights is not None:
            for name, members in domains.items():
                self._tensorboard.histogram(f"q/{name}", np.asarray(report.weights)[members], step)

    def close(self) -> None:
        """Finish all files."""
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()
