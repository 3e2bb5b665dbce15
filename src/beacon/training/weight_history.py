"""The weights of a run over time, as Parquet tables in its folder weights/.

episodes.parquet             means over every demonstration, one block of rows a refresh
windows-<step>.parquet       every window, at the checkpoint of that step
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.data import Windows
from beacon.errors import UserError
from beacon.files import replacing
from beacon.methods import EpochReport

EPISODES = "episodes.parquet"
COLUMNS = ("weight", "loss", "discrepancy")


class WeightHistory:
    """Per-episode means of every refresh, and all windows at checkpoints, as Parquet tables."""

    def __init__(self, folder: Path, windows: Windows, domains: tuple[str, ...]) -> None:
        self._folder, self._windows, self._domains = folder, windows, domains
        self._counts = np.bincount(windows.episode)
        self._refreshes: list[tuple[int, int, dict[str, NDArray[np.float32]]]] = []
        self._last: EpochReport | None = None

    def add(self, epoch: int, step: int, report: EpochReport) -> None:
        """Remember one refresh."""
        if report.weights is None:
            return
        self._last = report
        means = {name: self._means(values) for name, values in _columns(report).items()}
        self._refreshes.append((epoch, step, means))

    def save(self, step: int) -> None:
        """Write both tables; the one of the episodes holds all refreshes so far."""
        if not self._refreshes:
            return
        with replacing(self._folder / EPISODES) as temporary:
            pq.write_table(self._episode_table(), temporary)
        if self._last is not None:
            with replacing(self._folder / window_file(step)) as temporary:
                pq.write_table(self._window_table(self._last), temporary)

    def restore(self, epoch: int, step: int) -> None:
        """Take up the refreshes before ``epoch`` of an earlier part of the run, which stands at ``step``."""
        last = self._folder / window_file(step)
        if not last.exists() or not (self._folder / EPISODES).exists():
            return
        windows = read_table(last)
        kept = {name: windows[name].to_numpy() for name in COLUMNS if name in windows.column_names}
        self._last = EpochReport(
            weights=kept["weight"], losses=kept.get("loss"), discrepancies=kept.get("discrepancy")
        )
        table = read_table(self._folder / EPISODES).to_pydict()
        names = [name for name in COLUMNS if name in table]
        size = len(self._counts)
        for start in range(0, len(table["epoch"]), size):
            if table["epoch"][start] < epoch:
                part = {name: np.array(table[name][start : start + size], np.float32) for name in names}
                self._refreshes.append((table["epoch"][start], table["step"][start], part))

    def _means(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        return (np.bincount(self._windows.episode, weights=values) / self._counts).astype(np.float32)

    def _episode_table(self) -> pa.Table:
        size, count = len(self._counts), len(self._refreshes)
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

    def _window_table(self, report: EpochReport) -> pa.Table:
        windows = self._windows
        columns: dict[str, Any] = {
            "domain": pa.array([self._domains[d] for d in windows.domain]).dictionary_encode(),
            "episode": windows.episode,
            "time": windows.step,
            "phase": windows.phase,
        }
        return pa.table(columns | _columns(report))


def window_file(step: int) -> str:
    """The table of all windows at the checkpoint of that step."""
    return f"windows-{step:08d}.parquet"


def read_table(file: Path) -> pa.Table:
    """A table of a run, or one line on why it cannot be read."""
    try:
        return pq.read_table(file)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{file}: damaged ({' '.join(str(error).split())})") from None


def _columns(report: EpochReport) -> dict[str, NDArray[np.float64]]:
    values = dict(zip(COLUMNS, (report.weights, report.losses, report.discrepancies), strict=True))
    return {name: column for name, column in values.items() if column is not None}
