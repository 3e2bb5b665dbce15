"""The Parquet tables of a run's weights as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.training.weight_tables import demo_means

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
MEASURES = ("weight", "loss", "discrepancy")


@dataclass(frozen=True, eq=False)
class EpisodeHistory:
    """Means over every demonstration at every refresh; R refreshes, E demonstrations."""

    step: Ids  # (R,)
    domains: list[str]  # in the order of the demonstrations
    domain: Ids  # (E,)
    names: list[str]  # (E,)
    weight: Array  # (R, E)
    loss: Array | None
    discrepancy: Array | None

    def members(self, domain: str) -> NDArray[np.bool_]:
        """Which demonstrations are of a domain, (E,)."""
        return np.asarray(self.domain == self.domains.index(domain))


@dataclass(frozen=True, eq=False)
class WindowTable:
    """Every window at one checkpoint, N of them, by domain, demonstration and time."""

    domains: list[str]
    domain: Ids  # (N,)
    episode: Ids  # (N,)
    time: Ids  # (N,)
    phase: Array  # (N,)
    weight: Array  # (N,)
    loss: Array | None
    discrepancy: Array | None

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def lengths(self) -> Ids:
        """Windows of each demonstration, (E,)."""
        return np.bincount(self.episode)

    @property
    def starts(self) -> Ids:
        """The first window of each demonstration, (E,)."""
        return np.cumsum(self.lengths) - self.lengths

    def episode_means(self, values: Array) -> Array:
        """Mean over each demonstration, (E,)."""
        return demo_means(values, self.episode)

    @property
    def episode_domain(self) -> Ids:
        """(E,)."""
        return self.domain[self.starts]


def read_episodes(file: Path) -> EpisodeHistory:
    """The table of all refreshes."""
    table = _read(file, ("step", "domain", "episode", "name", "weight"))
    episode = table["episode"].to_numpy()
    count = int(episode.max()) + 1
    if len(episode) % count or (episode.reshape(-1, count) != np.arange(count)).any():
        raise ValueError(f"{file.name}: demonstrations are missing in some refreshes")
    first = table.slice(0, count)
    domains, domain = _names(first["domain"])

    def columns(name: str) -> Array | None:
        if name not in table.column_names:
            return None
        return np.asarray(table[name].to_numpy(), dtype=np.float64).reshape(-1, count)

    weight, loss, discrepancy = (columns(name) for name in MEASURES)
    assert weight is not None  # _read has looked
    return EpisodeHistory(
        step=table["step"].to_numpy().reshape(-1, count)[:, 0],
        domains=domains,
        domain=domain,
        names=[str(name) for name in first["name"].to_pylist()],
        weight=weight,
        loss=loss,
        discrepancy=discrepancy,
    )


def read_windows(file: Path) -> WindowTable:
    """The table of one checkpoint."""
    table = _read(file, ("domain", "episode", "time", "phase", "weight"))
    episode = table["episode"].to_numpy().astype(np.int64)
    if (np.diff(episode) < 0).any():
        raise ValueError(f"{file.name}: windows are not in order")
    domains, domain = _names(table["domain"])

    def column(name: str) -> Array | None:
        if name not in table.column_names:
            return None
        return np.asarray(table[name].to_numpy(), dtype=np.float64)

    weight, loss, discrepancy = (column(name) for name in MEASURES)
    assert weight is not None
    return WindowTable(
        domains=domains,
        domain=domain,
        episode=episode,
        time=table["time"].to_numpy().astype(np.int64),
        phase=table["phase"].to_numpy().astype(np.float64),
        weight=weight,
        loss=loss,
        discrepancy=discrepancy,
    )


def _read(file: Path, needed: tuple[str, ...]) -> Any:
    try:
        table = pq.read_table(file)
    except pa.ArrowException as error:
        raise ValueError(f"{file.name}: {error}") from None
    for name in needed:
        if name not in table.column_names:
            raise ValueError(f"{file.name}: no column '{name}'")
    if not len(table):
        raise ValueError(f"{file.name}: empty")
    return table


def _names(column: Any) -> tuple[list[str], Ids]:
    """Different names in their order, and for each row the index of its own."""
    rows = [str(name) for name in column.to_pylist()]
    names = list(dict.fromkeys(rows))
    place = {name: index for index, name in enumerate(names)}
    return names, np.array([place[row] for row in rows], dtype=np.int64)
