"""The audit as a check of BEACON: what it accuses gets a larger discrepancy, everything else is left
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.audit.run import AuditOptions, DemoVerdict, run_audit
from beacon.audit.saved import read_audit
from beacon.plain import OMIT_DEFAULT
from beacon.runs.data_records import DomainRecord
from beacon.weighting.checks.base import CHECKS, BuiltCheck, Check
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Vector, require

if TYPE_CHECKING:
    from beacon.data.context import DataContext
    from beacon.data.episodes import EpisodeSet


@CHECKS.register("audit")
@dataclass(frozen=True)
class AuditCheck(Check):
    """Audit the demonstrations before training (`beacon audit`), and multiply the discrepancy of the accused.

    Demonstrations that are not accused keep a factor of one, so a clean source keeps its weights.
    """

    # Factor of an accused demonstration.
    accused_factor: float = 5.0
    # Of the audit itself.
    options: AuditOptions = field(default_factory=AuditOptions)
    # audit.json of these data, or its folder, where beacon audit was run before; None: audit now.
    file: Path | None = field(default=None, metadata=OMIT_DEFAULT)

    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        require(self.accused_factor >= 1, "accused_factor", "at least 1", self.accused_factor)

    def build(self, context: DataContext) -> BuiltCheck:
        """The check of one run."""
        if context is None:
            raise ValueError("checks: audit needs demonstrations, which a plain loop does not give")
        sets = context.windows.sets
        sources, target = sets[: context.target], sets[context.target]
        verdicts: Sequence[DemoVerdict | None]
        if self.file is None:
            verdicts = self._audit(sources, target)
        else:
            saved, where = read_audit(self.file), str(self.file)
            saved.check_target(DomainRecord.of(target, is_target=True), where)
            records = [DomainRecord.of(source, is_target=False) for source in sources]
            verdicts = [demo for record in records for demo in saved.demo_verdicts(record, where)]
        accused = [verdict is not None and verdict.is_accused for verdict in verdicts]
        factors = np.where(accused, self.accused_factor, 1.0)
        # Sources come first, so the number of a source window's episode is that of its verdict.
        prior = factors[context.windows.episode[context.source_windows]]
        return AuditedDemonstrations(float(np.mean(accused)), verdicts, prior)

    def _audit(self, sources: Sequence[EpisodeSet], target: EpisodeSet) -> list[DemoVerdict | None]:
        """What is said of each demonstration; None: a source of one cannot be compared with itself."""
        comparable = [source for source in sources if len(source) > 1]
        audited = iter(run_audit(comparable, target, self.options).sets if comparable else ())
        verdicts: list[DemoVerdict | None] = []
        for source in sources:
            verdicts += next(audited).demos if len(source) > 1 else [None] * len(source)
        return verdicts


@dataclass(eq=False)
class AuditedDemonstrations(BuiltCheck):
    """The check of one run, and what the audit says of every source demonstration."""

    accused: float  # share of the source demonstrations
    verdicts: Sequence[DemoVerdict | None]  # in the order of the source sets
    prior: Vector  # (m,)

    def forgive(self, windows: NDArray[np.bool_]) -> None:
        """Leave the discrepancies of some source windows alone, (m,)."""
        self.prior = np.where(windows, 1.0, self.prior)

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        return PerSample(self.prior, {"audit_accused": self.accused})
