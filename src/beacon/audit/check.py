"""The audit as a check of BEACON: what it accuses gets a larger discrepancy, everything else is left
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.audit.run import AuditOptions, run_audit
from beacon.weighting.checks.base import CHECKS, BuiltCheck, Check
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Vector, require

if TYPE_CHECKING:
    from beacon.data.context import DataContext


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

    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        require(self.accused_factor >= 1, "accused_factor", "at least 1", self.accused_factor)

    def build(self, context: DataContext) -> BuiltCheck:
        """The check of one run."""
        if context is None:
            raise ValueError("checks: audit needs demonstrations, which a plain loop does not give")
        sets = context.windows.sets
        result = run_audit(sets[: context.target], sets[context.target], self.options)
        accused = [demo.is_accused for verdict in result.sets for demo in verdict.demos]
        factors = np.where(accused, self.accused_factor, 1.0)
        # Sources come first, so the number of a source window's episode is that of its verdict.
        return _Audited(float(np.mean(accused)), factors[context.windows.episode[context.source_windows]])


@dataclass(eq=False)
class _Audited(BuiltCheck):
    accused: float  # share of the source demonstrations
    prior: Vector  # (m,)

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        return PerSample(self.prior, {"audit_accused": self.accused})
