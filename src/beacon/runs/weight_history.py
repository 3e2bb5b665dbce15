"""The weights of a run over time, written as Parquet tables at every checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.analysis.weights import demo_means
from beacon.data import Windows
from beacon.files import replacing
from beacon.runs.layout import EPISODES, window_file
from beacon.runs.weight_tables import MEASURES, read_episodes, read_windows

Column = NDArray[np.float64] | None


class Refresh(Protocol):
    """What a method says of all windows when it refreshes their weights; None: it has no such numbers."""

    @property
    def weights(self) -> Column: ...
    @property
    def losses(self) -> Column: ...
    @property
    def discrepancies(self) -> Column: ...


@dataclass(frozen=True, eq=False)
class _Stored:
    """A refresh that was read from a table."""

    weights: Column
    losses: Column
    discrepancies: Column


class WeightHistory:
    """Per-episode means of every refresh, and all windows at checkpoints.

    Args:
        folder: ``weights/`` of the run.
        windows: all windows of the run.
        domains: names of their domains.
    """

    def __init__(self, folder: Path, windows: Windows, domains: tuple[str, ...]) -> None:
        self._folder, self._windows, self._domains = folder, windows, domains
        self._episodes = len(windows.episode_names)
        self._refreshes: list[tuple[int, int, dict[str, NDArray[np.float32]]]] = []
        self._last: Refresh | None = None

    def add(self, epoch: int, step: int, refresh: Refresh) -> None:
        """Remember one refresh; one without weights is not kept.

        Args:
            epoch: before which it was.
            step: gradient steps done.
            refresh: what the method said.
        """
        if refresh.weights is None:
            return
        self._last = refresh
        means = {
            name: demo_means(np.asarray(values, np.float64), self._windows.episode).astype(np.float32)
            for name, values in _columns(refresh).items()
        }
        self._refreshes.append((epoch, step, means))

    def save(self, step: int) -> None:
        """Write both tables; the one of the episodes holds all refreshes so far.

        Args:
            step: of the checkpoint that follows.
        """
        if not self._refreshes:
            return
        with replacing(self._folder / EPISODES) as temporary:
            pq.write_table(self._episode_table(), temporary, write_page_checksum=True)
        if self._last is not None:
            with replacing(self._folder / window_file(step)) as temporary:
                pq.write_table(self._window_table(self._last), temporary, write_page_checksum=True)

    def restore(self, epoch: int, step: int) -> None:
        """Take up what an earlier part of the run has saved.

        Args:
            epoch: refreshes before it are kept.
            step: of the checkpoint where the run stands.
        """
        last = self._folder / window_file(step)
        if not last.exists() or not (self._folder / EPISODES).exists():
            return
        windows, history = read_windows(last), read_episodes(self._folder / EPISODES)
        self._last = _Stored(windows.weight, windows.loss, windows.discrepancy)
        columns = {name: getattr(history, name) for name in MEASURES}
        for refresh in range(len(history.step)):
            if history.epoch[refresh] < epoch:
                means = {n: v[refresh].astype(np.float32) for n, v in columns.items() if v is not None}
                self._refreshes.append((int(history.epoch[refresh]), int(history.step[refresh]), means))

    def _episode_table(self) -> pa.Table:
        size, count = self._episodes, len(self._refreshes)
        domains = [self._domains[d] for d in self._windows.episode_domain]
        columns: dict[str, Any] = {
            "epoch": np.repeat([epoch for epoch, _, _ in self._refreshes], size),
            "step": np.repeat([step for _, step, _ in self._refreshes], size),
            "domain": pa.array(domains * count).dictionary_encode(),
            "episode": np.tile(np.arange(size), count),
            "name": pa.array(self._windows.episode_names * count).dictionary_encode(),
        }
        for name in self._refreshes[0][2]:
            columns[name] = np.concatenate([means[name] for _, _, means in self._refreshes])
        return pa.table(columns)

    def _window_table(self, refresh: Refresh) -> pa.Table:
        windows = self._windows
        columns: dict[str, Any] = {
            "domain": pa.array([self._domains[d] for d in windows.domain]).dictionary_encode(),
            "episode": windows.episode,
            "time": windows.step,
            "phase": windows.phase,
        }
        return pa.table(columns | _columns(refresh))


def _columns(refresh: Refresh) -> dict[str, NDArray[np.float64]]:
    values = dict(zip(MEASURES, (refresh.weights, refresh.losses, refresh.discrepancies), strict=True))
    return {name: column for name, column in values.items() if column is not None}
