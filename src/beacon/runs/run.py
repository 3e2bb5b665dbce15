"""`Run`: what a run folder says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.runs.checkpoints import Checkpoints, find_checkpoint
from beacon.runs.data_records import DomainRecord, read_records
from beacon.runs.evaluations import Evaluation, read_evaluation
from beacon.runs.layout import (
    CHECKPOINTS,
    CONFIG,
    DATA,
    EPISODES,
    EVALUATIONS,
    LAST,
    METRICS,
    REFERENCES,
    WEIGHTS,
)
from beacon.runs.metrics import MetricsLog, read_metrics
from beacon.runs.reading import read_yaml

if TYPE_CHECKING:
    from beacon.runs.weight_tables import EpisodeHistory, WindowTable


class Run:
    """A run folder. Every part is read when it is asked for and kept; damage is a UserError of one line.

    Make a new one to see what a run that goes on has written since.

    Args:
        path: the run folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether there is anything of a run in the folder."""
        return any((self.path / part).exists() for part in (CONFIG, METRICS, CHECKPOINTS))

    # Configuration and data

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.yaml as plain values; `beacon.training` makes a TrainConfig of them."""
        try:
            return read_yaml(self.path / CONFIG)
        except FileNotFoundError:
            raise UserError(f"{self.path} is not a run: it has no {CONFIG}") from None

    def option(self, section: str, name: str) -> Any:
        """A value of the configuration, None when it is not there.

        Args:
            section: data, optimization, policy, run or options.
            name: of the option.
        """
        part = self.config.get(section)
        return part.get(name) if isinstance(part, Mapping) else None

    @cached_property
    def domains(self) -> list[DomainRecord]:
        """data.json: the domains, sources first."""
        return read_records(self.path / DATA)

    # What training wrote

    @cached_property
    def metrics(self) -> MetricsLog:
        """metrics.jsonl; damaged lines are counted and left out."""
        return read_metrics(self.path / METRICS)

    @property
    def checkpoints(self) -> Checkpoints:
        """The folder of checkpoints."""
        return Checkpoints(self.path / CHECKPOINTS)

    @property
    def checkpoint(self) -> Path:
        """The newest checkpoint."""
        return find_checkpoint(self.path)

    @cached_property
    def window_files(self) -> dict[int, Path]:
        """Tables of all windows by step, the oldest first."""
        files = {}
        for file in (self.path / WEIGHTS).glob("windows-*.parquet"):
            if step := re.fullmatch(r"windows-([0-9]{1,18})\.parquet", file.name):
                files[int(step[1])] = file
        return {step: files[step] for step in sorted(files)}

    @cached_property
    def windows(self) -> WindowTable | None:
        """Weights of all windows at the newest checkpoint; None for a run that has none."""
        from beacon.runs.weight_tables import read_windows

        if not self.window_files:
            return None
        step = max(self.window_files)
        with suppress(UserError):  # without `last` the newest table is the best there is
            # Tables are written before their checkpoint: after a kill there may be one more of them.
            last = self.checkpoints.last
            step = last if last is not None and last in self.window_files else step
        return read_windows(self.window_files[step])

    @cached_property
    def episodes(self) -> EpisodeHistory | None:
        """Means over every demonstration at every refresh; None for a run that has no weights."""
        from beacon.runs.weight_tables import read_episodes

        file = self.path / WEIGHTS / EPISODES
        return read_episodes(file) if file.exists() else None

    def mass_shares(self, domains: Sequence[str]) -> NDArray[np.float64]:
        """The share of the mass that each domain has in the newest weights, (domains,).

        Args:
            domains: names of the run's domains, in any order.
        """
        table = self.windows
        if table is None:
            raise UserError(f"{self.path}: not a run that has weights; it needs {self.path / WEIGHTS}")
        if set(table.domains) != set(domains):
            raise UserError(
                f"{self.path}: its domains are {', '.join(sorted(table.domains))}, not {', '.join(domains)}"
            )
        mass = np.array([table.weight[table.members(name)].sum() for name in domains], np.float64)
        if not mass.sum() > 0:
            raise UserError(f"{self.path}: all of its weights are zero")
        return np.asarray(mass / mass.sum())

    # What others added

    @cached_property
    def evaluation_files(self) -> list[Path]:
        """Result files of ``beacon evaluate``."""
        return sorted((self.path / EVALUATIONS).glob("*.json"))

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """Results of ``beacon evaluate``."""
        return [read_evaluation(file) for file in self.evaluation_files]

    @property
    def watched_files(self) -> list[Path]:
        """Files that change when there is something new to see."""
        names = (CONFIG, METRICS, f"{WEIGHTS}/{EPISODES}", f"{CHECKPOINTS}/{LAST}")
        return [*(self.path / name for name in names), *sorted((self.path / EVALUATIONS).glob("*.json"))]

    def slim(self) -> None:
        """Keep what evaluations, reports and controls need: no optimiser state, no half-time weights."""
        for file in self.path.glob(f"{CHECKPOINTS}/*/optimizer.safetensors"):
            file.unlink()
        for file in list(self.window_files.values())[1:-1]:
            file.unlink()
        shutil.rmtree(self.path / REFERENCES, ignore_errors=True)
