"""The learned weights of a run: read, summarised, exported, and used to choose demonstrations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.data import copy_episodes, open_dataset
from beacon.data.errors import listing
from beacon.errors import UserError
from beacon.files import replacing
from beacon.training.records import DomainRecord, hash_actions, read_records
from beacon.training.run_folder import DATA, RunFolder
from beacon.training.weight_history import read_table, window_file

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
class WeightTable:
    """Weights of all N windows at one checkpoint of a run."""

    run: Path
    step: int
    records: list[DomainRecord]  # the domains, in the order of the windows
    episode: NDArray[np.int64]  # (N,) numbered through all domains
    time: NDArray[np.int64]  # (N,) step within the demonstration
    weight: Values  # (N,)
    loss: Values  # (N,) NaN where the method has none, as are the discrepancies
    discrepancy: Values  # (N,)

    @property
    def sources(self) -> list[DomainRecord]:
        """The source domains."""
        return [record for record in self.records if not record.is_target]

    @property
    def _demo_domain(self) -> NDArray[np.int64]:
        """The domain of every demonstration, (E,)."""
        return np.repeat(np.arange(len(self.records)), [len(record.demos) for record in self.records])

    def domains(self) -> list[DomainSummary]:
        """One summary a domain."""
        whose, total = self._demo_domain[self.episode], self.weight.sum()
        found = []
        for number, record in enumerate(self.records):
            q = self.weight[whose == number]
            mass, squares = float(q.sum()), float(q @ q)
            found.append(
                DomainSummary(
                    record=record,
                    windows=len(q),
                    mean=float(q.mean()),
                    quantiles=tuple(np.quantile(q, QUANTILES).tolist()),
                    mass=mass,
                    share=mass / total if total > 0 else 0.0,
                    effective_sample_size=mass**2 / squares if squares > 0 else 0.0,
                )
            )
        return found

    def demos(self, record: DomainRecord | None = None) -> list[DemoWeight]:
        """Demonstrations of one domain, or of all sources, the heaviest first."""
        wanted = self.sources if record is None else [record]
        means = [demo_means(values, self.episode) for values in (self.weight, self.discrepancy, self.loss)]
        names = [name for entry in self.records for name in entry.demos]
        order = np.argsort(-means[0], kind="stable")
        domain = self._demo_domain
        return [
            DemoWeight(self.records[domain[e]], names[e], *(float(values[e]) for values in means))
            for e in order.tolist()
            if self.records[domain[e]] in wanted
        ]

    def source(self, name: str | None) -> DomainRecord:
        """The source domain of that name; it need not be named where there is only one."""
        names = [record.name for record in self.sources]
        if name is None and len(names) > 1:
            raise UserError(
                f"{self.run} has several source domains; choose with --source-domain: {listing(names)}"
            )
        if name is not None and name not in names:
            raise UserError(f"--source-domain {name}: the source domains of {self.run} are {listing(names)}")
        return self.sources[0 if name is None else names.index(name)]

    def export(self, path: Path) -> None:
        """Write one row a window as Parquet."""
        domain = self._demo_domain
        names = np.array([name for record in self.records for name in record.demos])
        of_domain = {"domain": [r.name for r in self.records], "file": [r.file for r in self.records]}
        columns: dict[str, pa.Array] = {
            key: pa.DictionaryArray.from_arrays(pa.array(domain[self.episode], pa.int32()), values)
            for key, values in of_domain.items()
        }
        columns["demo"] = pa.array(names[self.episode]).dictionary_encode()
        columns["time"] = pa.array(self.time)
        for key in ("weight", "discrepancy", "loss"):
            columns[key] = pa.array(getattr(self, key), from_pandas=True)  # NaN becomes null
        with replacing(path) as temporary:
            pq.write_table(pa.table(columns), temporary)

    def curate(
        self,
        path: Path,
        keep: int | float,
        *,
        source: DomainRecord,
        file: Path | None = None,
        overwrite: bool = False,
    ) -> list[DemoWeight]:
        """Write the demonstrations with the largest mean weights as a new dataset, the heaviest first.

        Args:
            path: the new dataset.
            keep: so many of them (int), or this share of them (float, above 0 and at most 1).
            source: the domain that they are of.
            file: where its dataset is now, if it was moved.
            overwrite: replace a dataset that is there.
        """
        demos = self.demos(source)
        chosen = demos[: how_many(keep, len(demos))]
        origin = Path(source.file) if file is None else file
        check_unchanged(origin, source)
        attributes = {
            demo.name: {
                "beacon_weight": demo.weight,
                "beacon_discrepancy": demo.discrepancy,
                "beacon_loss": demo.loss,
            }
            for demo in chosen
        }
        copy_episodes(
            origin, path, [demo.name for demo in chosen], attributes=attributes, overwrite=overwrite
        )
        return chosen


def demo_means(values: Values, episode: NDArray[np.int64]) -> Values:
    """Mean over each demonstration, (E,); exact where it is the same for all of its windows.

    Demonstrations of one weight must not be ranked by how their sums were rounded.
    """
    _, first_window = np.unique(episode, return_index=True)
    first = values[first_window]
    beyond = np.bincount(episode, weights=values - first[episode])
    return np.asarray(first + beyond / np.bincount(episode))


def how_many(keep: int | float, demos: int) -> int:
    """``keep`` as a number of demonstrations.

    >>> how_many(0.5, 5), how_many(1.0, 5), how_many(1, 5)
    (3, 5, 1)
    """
    if isinstance(keep, int):
        if not 1 <= keep <= demos:
            raise UserError(f"--keep {keep}: there are {demos} demonstrations; keep 1 to {demos}")
        return keep
    if not 0 < keep <= 1:
        raise UserError(f"--keep {keep}: must be a share above 0 and at most 1.0, or a whole number")
    return math.ceil(round(keep * demos, 9))


def check_unchanged(file: Path, record: DomainRecord) -> None:
    """Refuse a dataset that is not the one that the weights are of."""
    if not file.exists():
        raise UserError(
            f"{file}: the dataset that the run was trained on is not there any more; "
            "say where it is now with --source-file"
        )
    with open_dataset(file) as reader:
        missing = [name for name in record.demos if name not in reader.episode_names]
        if missing:
            raise UserError(f"{file} has changed since the run: it has no {listing(missing)}")
        if hash_actions([reader.read(name, "actions") for name in record.demos]) != record.actions:
            raise UserError(f"{file} has changed since the run: the weights are of other actions")


def load_weight_table(run: Path) -> WeightTable:
    """The weights at the newest checkpoint of a run."""
    folder = RunFolder(run)
    config = folder.read_config()
    last = folder.checkpoints / "last"
    if not last.exists():
        raise UserError(f"{run} has no checkpoint yet, and the weights are written with it")
    try:
        step = int(last.read_text().strip())
    except (OSError, ValueError) as error:
        raise UserError(f"{last}: damaged ({error})") from None
    file = folder.weights / window_file(step)
    if not file.exists() and not any(folder.weights.glob("windows-*.parquet")):
        raise UserError(f"{run} has no weights: it was trained by {config.method}, or not refreshed so far")
    table = read_table(file)
    records = read_records(folder.path / DATA)
    frames = sum(sum(record.lengths) for record in records)
    if table.num_rows != frames or "weight" not in table.column_names:
        raise UserError(f"{file}: does not fit {folder.path / DATA}, which tells of {frames} windows")

    def column(name: str) -> Values:
        if name not in table.column_names:
            return np.full(frames, np.nan)
        return np.asarray(table[name].to_numpy(), np.float64)

    return WeightTable(
        run=run,
        step=step,
        records=records,
        episode=np.asarray(table["episode"].to_numpy(), np.int64),
        time=np.asarray(table["time"].to_numpy(), np.int64),
        weight=column("weight"),
        loss=column("loss"),
        discrepancy=column("discrepancy"),
    )
