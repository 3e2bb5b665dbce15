"""weights/*.parquet as arrays, checked: whoever has a table can rely on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.analysis.weights import demo_means
from beacon.errors import UserError
from beacon.runs.reading import damaged

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
MEASURES = ("weight", "loss", "discrepancy")


@dataclass(frozen=True, eq=False)
class EpisodeHistory:
    """Means over every demonstration at every refresh; R refreshes, E demonstrations."""

    epoch: Ids  # (R,) before which the refresh was
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

    step: int  # of the checkpoint
    domains: list[str]
    domain: Ids  # (N,)
    episode: Ids  # (N,) numbered through all domains
    time: Ids  # (N,) step within the demonstration
    phase: Array  # (N,) in [0, 1]
    weight: Array  # (N,) finite
    loss: Array | None  # (N,)
    discrepancy: Array | None  # (N,)

    def __len__(self) -> int:
        return len(self.weight)

    def members(self, domain: str) -> NDArray[np.bool_]:
        """Which windows are of a domain, (N,)."""
        return np.asarray(self.domain == self.domains.index(domain))

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
    """The table of all refreshes.

    Args:
        file: episodes.parquet of a run.
    """
    table = read_table(file, ("epoch", "step", "domain", "episode", "name", "weight"))
    episode = _integers(file, table, "episode")
    count = int(episode.max()) + 1
    if count > len(episode) or len(episode) % count or (episode.reshape(-1, count) != np.arange(count)).any():
        raise damaged(file, "demonstrations are missing in some refreshes")
    first = table.slice(0, count)
    domains, domain = _names(first["domain"])

    def by_refresh(values: Array | None) -> Array | None:
        return None if values is None else values.reshape(-1, count)

    weight = by_refresh(_finite(file, table, "weight"))
    assert weight is not None
    return EpisodeHistory(
        epoch=_integers(file, table, "epoch")[::count],
        step=_integers(file, table, "step")[::count],
        domains=domains,
        domain=domain,
        names=[str(name) for name in first["name"].to_pylist()],
        weight=weight,
        loss=by_refresh(_optional(file, table, "loss")),
        discrepancy=by_refresh(_optional(file, table, "discrepancy")),
    )


def read_windows(file: Path) -> WindowTable:
    """The table of one checkpoint.

    Args:
        file: windows-<step>.parquet of a run.
    """
    table = read_table(file, ("domain", "episode", "time", "phase", "weight"))
    episode = _integers(file, table, "episode")
    if episode[0] != 0 or not np.isin(np.diff(episode), (0, 1)).all():
        raise damaged(file, "windows are not in order")
    domains, domain = _names(table["domain"])
    phase = _finite(file, table, "phase")
    if phase.min() < 0 or phase.max() > 1:
        raise damaged(file, "'phase' is not from 0 to 1")
    step = re.search(r"[0-9]+", file.stem)
    return WindowTable(
        step=int(step[0]) if step else 0,
        domains=domains,
        domain=domain,
        episode=episode,
        time=_integers(file, table, "time"),
        phase=phase,
        weight=_finite(file, table, "weight"),
        loss=_optional(file, table, "loss"),
        discrepancy=_optional(file, table, "discrepancy"),
    )


def read_table(file: Path, needed: tuple[str, ...]) -> Any:
    """A Parquet table with at least these columns and one row, or one line on why it cannot be read.

    Args:
        file: which.
        needed: names of columns.
    """
    try:
        table = pq.read_table(file.absolute(), page_checksum_verification=True)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(file, error) from None
    for name in needed:
        if name not in table.column_names:
            raise damaged(file, f"no column '{name}'")
    if not len(table):
        raise damaged(file, "empty")
    return table


def _integers(file: Path, table: Any, name: str) -> Ids:
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise damaged(file, f"'{name}' is not a column of whole numbers")
    values = np.asarray(column.to_numpy()).astype(np.int64)
    if values.min() < 0:
        raise damaged(file, f"'{name}' is below 0")
    return values


def _numbers(file: Path, table: Any, name: str) -> Array:
    """A column of numbers; nulls are NaN."""
    column = table[name]
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise damaged(file, f"'{name}' is not a column of numbers")
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _finite(file: Path, table: Any, name: str) -> Array:
    values = _numbers(file, table, name)
    if not np.isfinite(values).all():
        raise damaged(file, f"'{name}' has numbers that are not finite")
    return values


def _optional(file: Path, table: Any, name: str) -> Array | None:
    return _numbers(file, table, name) if name in table.column_names else None


def _names(column: Any) -> tuple[list[str], Ids]:
    """Different names in their order, and for each row the index of its own."""
    rows = [str(name) for name in column.to_pylist()]
    names = list(dict.fromkeys(rows))
    index = {name: number for number, name in enumerate(names)}
    return names, np.array([index[row] for row in rows], dtype=np.int64)
