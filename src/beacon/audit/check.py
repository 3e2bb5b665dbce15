"""The audit as a check of BEACON: what it accuses gets a larger discrepancy, everything else is left
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.audit.run import AuditOptions, run_audit
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
        if self.file is None:
            accused = self._audit(sources, target)
        else:
            saved, where = read_audit(self.file), str(self.file)
            saved.check_target(DomainRecord.of(target, is_target=True), where)
            records = [DomainRecord.of(source, is_target=False) for source in sources]
            accused = [demo.is_accused for record in records for demo in saved.demo_verdicts(record, where)]
        factors = np.where(accused, self.accused_factor, 1.0)
        # Sources come first, so the number of a source window's episode is that of its verdict.
        return _Audited(float(np.mean(accused)), factors[context.windows.episode[context.source_windows]])

    def _audit(self, sources: Sequence[EpisodeSet], target: EpisodeSet) -> list[bool]:
        """Whether each demonstration is accused; a source of one cannot be compared with itself."""
        comparable = [source for source in sources if len(source) > 1]
        audited = iter(run_audit(comparable, target, self.options).sets if comparable else ())
        accused: list[bool] = []
        for source in sources:
            if len(source) > 1:
                accused += [demo.is_accused for demo in next(audited).demos]
            else:
                accused += [False] * len(source)
        return accused


@dataclass(eq=False)
class _Audited(BuiltCheck):
    accused: float  # share of the source demonstrations
    prior: Vector  # (m,)

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        return PerSample(self.prior, {"audit_accused": self.accused})
