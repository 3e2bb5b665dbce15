"""The learned weights of a run by demonstration: summarised, exported, used to choose demonstrations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.analysis.weights import demo_means, effective_sample_size
from beacon.data.errors import listing
from beacon.errors import UserError
from beacon.files import replacing
from beacon.runs.data_records import DomainRecord
from beacon.runs.layout import DATA, WEIGHTS, window_file
from beacon.runs.run import Run
from beacon.runs.weight_tables import WindowTable

Values = NDArray[np.float64]
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class DomainSummary:
    """The weights of one domain."""

    record: DomainRecord
    windows: int
    mean: float
    quantiles: tuple[float, ...]  # at QUANTILES
    mass: float  # sum of the weights
    share: float  # of the mass of all domains
    effective_sample_size: float  # (Σq)²/Σq²


@dataclass(frozen=True)
class DemoWeight:
    """One demonstration, with means over its windows."""

    record: DomainRecord
    name: str
    weight: float
    discrepancy: float  # NaN where the method has none
    loss: float


@dataclass(frozen=True, eq=False)
class DemonstrationWeights:
    """Weights of all windows at one checkpoint of a run, and the demonstrations that they are of."""

    run: Path
    records: list[DomainRecord]  # the domains, in the order of the windows
    table: WindowTable

    @property
    def sources(self) -> list[DomainRecord]:
        """The source domains."""
        return [record for record in self.records if not record.is_target]

    @property
    def _demo_domain(self) -> NDArray[np.int64]:
        """The domain of every demonstration, (E,)."""
        return np.repeat(np.arange(len(self.records)), [len(record.demos) for record in self.records])

    def _column(self, values: Values | None) -> Values:
        return np.full(len(self.table), np.nan) if values is None else values

    def domains(self) -> list[DomainSummary]:
        """One summary a domain."""
        domain, total = self._demo_domain[self.table.episode], self.table.weight.sum()
        summaries = []
        for number, record in enumerate(self.records):
            q = self.table.weight[domain == number]
            mass = float(q.sum())
            summaries.append(
                DomainSummary(
                    record=record,
                    windows=len(q),
                    mean=float(q.mean()),
                    quantiles=tuple(np.quantile(q, QUANTILES).tolist()),
                    mass=mass,
                    share=mass / total if total > 0 else 0.0,
                    effective_sample_size=effective_sample_size(q),
                )
            )
        return summaries

    def demos(self, record: DomainRecord | None = None) -> list[DemoWeight]:
        """Demonstrations of one domain, or of all sources, the heaviest first.

        Args:
            record: the domain.
        """
        wanted = self.sources if record is None else [record]
        columns = (self.table.weight, self._column(self.table.discrepancy), self._column(self.table.loss))
        means = [demo_means(values, self.table.episode) for values in columns]
        names = [name for entry in self.records for name in entry.demos]
        order = np.argsort(-means[0], kind="stable")
        domain = self._demo_domain
        return [
            DemoWeight(self.records[domain[e]], names[e], *(float(values[e]) for values in means))
            for e in order.tolist()
            if self.records[domain[e]] in wanted
        ]

    def source(self, name: str | None) -> DomainRecord:
        """The source domain of that name; it need not be named where there is only one.

        Args:
            name: of the domain.
        """
        names = [record.name for record in self.sources]
        if name is None and len(names) > 1:
            raise UserError(
                f"{self.run} has several source domains; choose with --source-domain: {listing(names)}"
            )
        if name is not None and name not in names:
            raise UserError(f"--source-domain {name}: the source domains of {self.run} are {listing(names)}")
        if not names:
            raise UserError(f"{self.run} has no source domain to choose demonstrations from")
        return self.sources[0 if name is None else names.index(name)]

    def export(self, path: Path) -> None:
        """Write one row a window as Parquet.

        Args:
            path: the new file.
        """
        table, domain = self.table, self._demo_domain
        names = np.array([name for record in self.records for name in record.demos])
        of_domain = {"domain": [r.name for r in self.records], "file": [r.file for r in self.records]}
        columns: dict[str, pa.Array] = {
            key: pa.DictionaryArray.from_arrays(pa.array(domain[table.episode], pa.int32()), values)
            for key, values in of_domain.items()
        }
        columns["demo"] = pa.array(names[table.episode]).dictionary_encode()
        columns["time"] = pa.array(table.time)
        for key in ("weight", "discrepancy", "loss"):
            # NaN becomes null.
            columns[key] = pa.array(self._column(getattr(table, key)), from_pandas=True)
        with replacing(path) as temporary:
            pq.write_table(pa.table(columns), temporary)


def how_many(keep: int | float, demos: int) -> int:
    """``keep`` as a number of demonstrations.

    >>> how_many(0.5, 5), how_many(1.0, 5), how_many(1, 5)
    (3, 5, 1)

    Args:
        keep: a number of them, or a share.
        demos: how many there are.
    """
    if isinstance(keep, int):
        if not 1 <= keep <= demos:
            raise UserError(f"--keep {keep}: there are {demos} demonstrations; keep 1 to {demos}")
        return keep
    if not 0 < keep <= 1:
        raise UserError(f"--keep {keep}: must be a share above 0 and at most 1.0, or a whole number")
    return math.ceil(round(keep * demos, 9))


def load_demonstration_weights(path: Path) -> DemonstrationWeights:
    """The weights at the newest checkpoint of a run.

    Args:
        path: the run folder.
    """
    run = Run(path)
    method = run.config.get("method", "an unknown method")
    step = run.checkpoints.last
    if step is None:
        raise UserError(f"{path} has no checkpoint yet, and the weights are written with it")
    table = run.windows
    if table is None:
        raise UserError(f"{path} has no weights: it was trained by {method}, or not refreshed so far")
    lengths = [length for record in run.domains for length in record.lengths]
    if table.lengths.tolist() != lengths:
        raise UserError(
            f"{path / WEIGHTS / window_file(table.step)}: does not fit {path / DATA}, "
            f"which tells of {sum(lengths)} windows of {len(lengths)} demonstrations"
        )
    return DemonstrationWeights(path, run.domains, table)
