"""g of source demonstrations that the audit accuses of late or scaled actions: they teach at much noise.

The audit knows what would mend such a demonstration, so it is known how far its action chunks y are from
those that fit its motion, y'. Under noise, with signal s_t and noise n_t, both are told apart by their
distance Δ(t) = s_t ‖y − y'‖ / n_t, and what they have in common is

    overlap(t) = 2 Φ(−Δ(t)/2),         one at pure noise, nothing where the noise is small against the fault

The cost of a bin is one minus the mean overlap. Such a demonstration is forgiven: the check by audit leaves
its discrepancy alone. All others that are accused, of another goal above all, fade at all levels as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beacon.audit.check import AuditedDemonstrations
from beacon.audit.diagnosis import DYNAMICS
from beacon.audit.evidence import Repair, RepairKind
from beacon.audit.look_alikes import CHECK as LOOK_ALIKES
from beacon.errors import UserError
from beacon.methods.base import MethodContext
from beacon.methods.beacon.noise.base import (
    NOISE_LEVELS,
    Binned,
    BuiltNoiseLevels,
    Matrix,
    NoiseEvidence,
    Vector,
    solve_levels,
)

if TYPE_CHECKING:
    from beacon.audit.run import DemoVerdict
    from beacon.weighting import BuiltCheck
CONVINCING = 0.005  # p-value up to which another fault than the dynamics' counts


@NOISE_LEVELS.register("by-audit")
@dataclass(frozen=True)
class ByAudit(Binned):
    """Demonstrations whose actions are late or of another size teach at much noise alone, by the audit."""

    smoothness: float = 0.1
    # What is forgiven at much noise: lag, scale, offset, sign, permutation.
    kinds: tuple[RepairKind, ...] = ("lag", "scale")

    def build(self, context: MethodContext, checks: Sequence[BuiltCheck]) -> BuiltNoiseLevels:
        """What is known before the run starts."""
        audited = [check for check in checks if isinstance(check, AuditedDemonstrations)]
        if not audited:
            raise UserError("--noise-levels by-audit: needs --checks audit")
        return _ByAudit(self, context, audited[0])


class _ByAudit(BuiltNoiseLevels):
    def __init__(self, options: ByAudit, context: MethodContext, audited: AuditedDemonstrations) -> None:
        windows = context.windows
        demos = len(windows.episode_length)
        super().__init__(context, options.bins, windows.episode.astype(np.int64), demos)
        repairs = {
            number: repair
            for number, verdict in enumerate(audited.verdicts)
            if verdict is not None and (repair := coarse_repair(verdict, options.kinds)) is not None
        }
        forgiven = np.isin(np.arange(demos), list(repairs))
        audited.forgive(forgiven[windows.episode[context.source_windows]])
        costs = np.zeros((demos, options.bins))
        for number, repair in repairs.items():
            costs[number] = 1 - self._overlap(number, repair)
        self.set(solve_levels(costs, options.smoothness), forgiven[windows.episode].astype(np.float64))
        self._forgiven = float(forgiven[windows.episode_domain != context.target].mean())

    def update(self, evidence: NoiseEvidence) -> dict[str, float]:
        """Nothing changes; it is said."""
        return self.scalars() | {"noise/forgiven": self._forgiven}

    def _overlap(self, episode: int, repair: Repair) -> Vector:
        """The mean overlap of a demonstration's chunks with the mended ones in every bin, (bins,)."""
        from scipy.special import ndtr

        policy = self.context.present_policy().policy
        distances = self._distances(episode, repair)  # (T,)
        signal, noise = (part.double().cpu().numpy() for part in (policy.signal, policy.noise))
        overlap = 2 * ndtr(-0.5 * (signal / np.maximum(noise, 1e-12)) * distances[:, None])  # (T, levels)
        return np.asarray(overlap.mean(axis=0).reshape(self.bins, -1).mean(axis=1))

    def _distances(self, episode: int, repair: Repair) -> Vector:
        """How far each chunk of a demonstration is from the mended one, as the policy sees them, (T,)."""
        from beacon.audit.repair import repaired_actions

        windows = self.context.windows
        index = np.flatnonzero(windows.episode == episode)
        recorded = windows.gather(index, images=False).actions.double().numpy()  # (T, horizon, A)
        seen = self.context.present_policy().actions(index).double().cpu().numpy()
        mended = repaired_actions(recorded[:, 0], repair)  # the first of every chunk: the demonstration
        steps = np.minimum(np.arange(len(index))[:, None] + np.arange(windows.horizon), len(index) - 1)
        apart = (mended[steps] - recorded) * _slopes(recorded, seen)
        return np.asarray(np.sqrt((apart**2).sum(axis=(1, 2))))


def coarse_repair(verdict: DemoVerdict, kinds: Sequence[RepairKind]) -> Repair | None:
    """What would mend a demonstration that is accused of nothing worse than these kinds; otherwise None.

    That it does otherwise than look-alikes follows from them; that it has another goal does not.

    Args:
        verdict: of the audit.
        kinds: of repair.
    """
    faults = [item for item in verdict.evidence if item.is_fault]
    if not verdict.is_accused or not faults or faults[0].check != DYNAMICS:
        return None
    convincing = [item for item in faults if item.p_value <= CONVINCING]
    if any(item.check not in (DYNAMICS, LOOK_ALIKES) for item in convincing):
        return None
    repair = faults[0].repair
    return repair if repair is not None and repair.kind in kinds else None


def _slopes(recorded: Matrix, seen: Matrix) -> Vector:
    """What the policy's scaling multiplies each action dimension by, (A,); zero where it is constant."""
    centred = recorded - recorded.mean(axis=(0, 1))
    spread = (centred**2).sum(axis=(0, 1))
    together = (centred * (seen - seen.mean(axis=(0, 1)))).sum(axis=(0, 1))
    return np.asarray(together / np.where(spread > 1e-12, spread, np.inf))
