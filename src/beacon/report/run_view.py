"""A run as the figures see it: its record, its demonstrations, its colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.report.demonstration_pool import DemonstrationPool
from beacon.report.embedding_map import EmbeddingMap
from beacon.report.run_record import RunRecord
from beacon.runs.initial_states import InitialDistance

COLOURS = 6  # different ones for runs, and for sources


@dataclass(frozen=True, eq=False)
class RunView:
    """One run of a report."""

    record: RunRecord
    index: int  # among the runs
    pool: DemonstrationPool | None = None
    pool_index: int | None = None  # among the pools of the report
    pool_numbers: NDArray[np.int64] | None = None  # of the run's demonstrations in the pool
    distance: InitialDistance | None = None
    map: EmbeddingMap | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self.record.name

    @property
    def title(self) -> str:
        """Name and method, where the name does not say the method."""
        method = self.record.method
        return self.name if method in self.name else f"{self.name} ({method})"

    @property
    def colour(self) -> str:
        """Of the run."""
        return f"run{self.index % COLOURS}"

    @property
    def domains(self) -> list[str]:
        """The run's domains, sources first, as far as they are known."""
        record = self.record
        if record.domains:
            return [domain.name for domain in record.domains]
        if record.windows is not None:
            return record.windows.domains
        if record.episodes is not None:
            return record.episodes.domains
        keys = dict.fromkeys(
            key for entry in record.metrics.train for key in entry if key.startswith("loss/")
        )
        return [key.removeprefix("loss/") for key in keys]

    @property
    def target(self) -> str | None:
        """The target's name."""
        if self.record.domains:
            return next((domain.name for domain in self.record.domains if domain.is_target), None)
        path = self.record.option("data", "target")
        if path is None or not self.domains:
            return None
        if self.record.weighs:
            return self.domains[-1]
        stem = str(path).replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
        matching = [name for name in self.domains if stem in name]
        return matching[-1] if matching else None

    @property
    def sources(self) -> list[str]:
        """The sources' names."""
        return [name for name in self.domains if name != self.target]

    def colour_of(self, domain: str) -> str:
        """Of a domain: the target has one of its own."""
        return "target" if domain == self.target else f"source{self.sources.index(domain) % COLOURS}"

    def role_of(self, domain: str) -> str:
        """A domain's name, with what it is where the name does not say it."""
        return f"{domain} (target)" if domain == self.target and domain != "target" else domain

    @property
    def source_windows(self) -> NDArray[np.bool_]:
        """Which rows of the table of windows are of a source."""
        table = self.record.windows
        assert table is not None
        if self.target is None:
            return np.ones(len(table), bool)
        return ~table.members(self.target)

    @property
    def source_demos(self) -> NDArray[np.int64]:
        """The run's own numbers of its source demonstrations, from the table of windows."""
        table = self.record.windows
        assert table is not None
        if self.target is None:
            return np.arange(len(table.lengths))
        return np.flatnonzero(self.source_windows[table.starts])

    @property
    def corruption(self) -> list[str] | None:
        """What is known to be wrong with the run's own demonstrations; None where nothing is recorded."""
        if self.pool is None or self.pool_numbers is None:
            return None
        labels = [self.pool.corruption[number] for number in self.pool_numbers]
        return labels if any(labels) else None
