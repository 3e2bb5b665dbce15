"""What an audit and a run say of the demonstrations of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.audit.run import DemoVerdict
from beacon.audit.saved import SavedAudit, read_audit
from beacon.desk.collection import Collection
from beacon.errors import UserError
from beacon.runs.data_records import DomainRecord
from beacon.runs.run import Run

Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Annotations:
    """By the number of a demonstration; what is not there is not known."""

    verdicts: dict[int, DemoVerdict] = field(default_factory=dict)
    weights: dict[int, dict[str, Curve]] = field(default_factory=dict)  # weight, loss, discrepancy by step

    def mean_weight(self, demo: int) -> float | None:
        """The mean weight of a demonstration at the run's newest checkpoint.

        Args:
            demo: its number.
        """
        curves = self.weights.get(demo)
        return None if curves is None else float(curves["weight"].mean())


@dataclass(frozen=True)
class Sources:
    """Where the desk looks, as the command line said it."""

    paths: tuple[Path, ...]
    audit: Path | None = None
    run: Path | None = None
    target: Path | None = None


def open_collection(sources: Sources) -> tuple[Collection, Annotations]:
    """Open everything: datasets that were named, and those that the audit and the run are of.

    Args:
        sources: what the command line said.
    """
    audit = None if sources.audit is None else read_audit(sources.audit)
    run = None if sources.run is None else Run(sources.run)
    records = [*(audit.data if audit else ()), *(run.domains if run else ())]
    paths = list(sources.paths) or [Path(record.file) for record in records]
    if not paths:
        raise UserError(
            "beacon desk: name at least one dataset, or --audit DIR or --run RUN; see beacon desk --help"
        )
    target = sources.target or _target(records, paths)
    if target is not None and target.resolve() not in [path.resolve() for path in paths]:
        paths.append(target)
    collection = Collection(paths, target)
    try:
        annotations = Annotations(
            {} if audit is None else _verdicts(collection, audit, str(sources.audit)),
            {} if run is None else _weights(collection, run),
        )
    except BaseException:
        collection.close()
        raise
    return collection, annotations


def _target(records: Sequence[DomainRecord], paths: Sequence[Path]) -> Path | None:
    """The target that an audit or a run names: as it was given here, or where it was then."""
    files = [Path(record.file) for record in records if record.is_target]
    if not files:
        return None
    given = [path for path in paths if path.resolve().name == files[0].name]
    return given[0] if given else files[0] if files[0].exists() else None


def _verdicts(collection: Collection, audit: SavedAudit, where: str) -> dict[int, DemoVerdict]:
    verdicts: dict[int, DemoVerdict] = {}
    for record, verdict in zip(audit.data, audit.result.sets, strict=False):
        numbers = collection.numbers(record, where)
        if numbers is not None:
            verdicts |= zip(numbers, verdict.demos, strict=True)
    if not verdicts:
        raise UserError(f"{where} is an audit of other data; run beacon audit again")
    return verdicts


def _weights(collection: Collection, run: Run) -> dict[int, dict[str, Curve]]:
    table = run.windows
    if table is None:
        raise UserError(f"{run.path} has no weights: its method has none, or no checkpoint was written yet")
    columns: dict[str, Any] = {"weight": table.weight, "loss": table.loss, "discrepancy": table.discrepancy}
    known = {name: values for name, values in columns.items() if values is not None}
    curves: dict[int, dict[str, Curve]] = {}
    own, known_sources = 0, 0  # number of the demonstration in the run's table; sources that are shown
    for record in run.domains:
        numbers = collection.numbers(record, str(run.path))
        known_sources += numbers is not None and not record.is_target
        for offset in range(len(record.demos)):
            if numbers is not None:
                start, length = int(table.starts[own]), int(table.lengths[own])
                rows = slice(start, start + length)
                curves[numbers[offset]] = {name: values[rows] for name, values in known.items()}
            own += 1
    if not known_sources and any(not record.is_target for record in run.domains):
        raise UserError(f"{run.path} is a run on other data")
    return curves
