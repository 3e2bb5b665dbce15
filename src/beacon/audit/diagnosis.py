"""What would make the actions of a demonstration fit its motion? Shifts, signs, factors, swaps, offsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from beacon.audit.calibration import Null
from beacon.audit.dynamics_model import DynamicsModel, scale_factor
from beacon.audit.evidence import SUSPICIOUS, Evidence, Matrix, Repair, RepairKind, Vector

DYNAMICS = "inverse-dynamics"  # name of the check of actions against motion
STILL_UNUSUAL = 0.001  # p-value of a misfit that a change does not explain
# Misfits, in units of the usual one, between which a change explains one, however much it helps others.
CERTAIN_BEFORE, CERTAIN_AFTER = 2.0, 1.2
EXPLAINED = 0.02  # share in the misfit above which an action dimension is explained by motion
# What is measured of every demonstration: its misfit and the roughness of it, the shift in time that fits
# best, the least slope of recorded over needed actions, and what each change would make of the misfit.
CHANGES: tuple[RepairKind, ...] = ("lag", "sign", "permutation", "offset", "scale")
SHIFT, SLOPE = 2, 3  # of the statistics
LOCATED: tuple[tuple[RepairKind, int], ...] = (("lag", SHIFT), ("sign", SLOPE), ("scale", SLOPE))
TWO_SIDED = (SHIFT, 2 + len(CHANGES))  # the shift, and the factor of the actions
# Below these nothing is unusual: a shift that rounds to one step, as where states are read before actions or
# after; actions that fit better as they are; an offset that removes less than a fifth of the misfit, as any
# fitted offset does; factors between 0.8 and 1.25; slopes, which are negated, above a half: sound
# ones have that where the robot moves as much as the noise.
LEAST = np.array([-np.inf, -np.inf, 1.5, -0.5, 0.0, 0.0, 0.0, -np.log(0.8), np.log(1.25)])


class Changes:
    """The best change of each kind for one demonstration, with the misfits that remain.

    Args:
        actions: (T, A) as recorded.
        predicted: (S, A) actions that explain the motion, by a model that has not seen the demonstration.
        model: of motion and action.
        largest_lag: largest shift in time that is tried.
    """

    def __init__(self, actions: Matrix, predicted: Matrix, model: DynamicsModel, largest_lag: int) -> None:
        self.actions, self.predicted, self.model = actions, predicted, model
        self.recorded = actions[: len(predicted)]
        self.before = model.misfit(self.recorded, predicted)
        self.explained = np.flatnonzero(model.share > EXPLAINED)
        self.lag, self.after_lag, self.shift = self._best_lag(largest_lag)
        self.signs, self.after_signs = self._best_signs()
        self.slope = float(np.min(self._slopes()[self.explained]))
        self.order, self.after_order = self._best_order()
        everywhere = model.share > EXPLAINED
        self.offset = np.where(everywhere, (self.recorded - predicted).mean(axis=0), 0.0)
        self.after_offset = model.misfit(self.recorded - self.offset, predicted)
        self.factor = scale_factor(self.recorded, predicted, model)
        self.scale, self.after_scale = self._best_scale()

    def statistics(self) -> Vector:
        """Logarithms of the misfit and of its roughness, the shift, the least slope, then
        logarithms of how much each of `CHANGES` makes the misfit smaller.

        A robot that touches something misfits for a while, and smoothly; noise is rough. The changes'
        gains hardly depend on how well a demonstration fits at all, which differs between sound ones.
        Where a robot follows slowly, or hardly moves along an axis, they are small; where the misfit is
        least, and whether actions point where the robot goes, is known better. Any factor makes a misfit
        smaller than it was, so of the last the factor itself is measured.
        """
        before = np.log(self.before + 1e-12)
        after = (self.after_lag, self.after_signs, self.after_order, self.after_offset)
        gains = [before - np.log(misfit + 1e-12) for misfit in after]
        rough = self.model.misfit(np.diff(self.recorded, axis=0), np.diff(self.predicted, axis=0))
        located = (self.shift, -self.slope)
        return np.array([before, np.log(rough + 1e-12), *located, *gains, np.log(self.factor)])

    def repair(self, kind: RepairKind, usual: float) -> Repair:
        """The change of a kind, with the misfits in units of the usual one."""
        before = self.before / usual
        if kind == "lag":
            return Repair("lag", before, self.after_lag / usual, lag=self.lag)
        if kind == "sign":
            return Repair("sign", before, self.after_signs / usual, signs=tuple(self.signs.tolist()))
        if kind == "permutation":
            return Repair("permutation", before, self.after_order / usual, order=tuple(self.order))
        if kind == "offset":
            return Repair("offset", before, self.after_offset / usual, offset=tuple(self.offset.tolist()))
        return Repair("scale", before, self.after_scale / usual, scale=tuple(self.scale.tolist()))

    def _best_lag(self, largest: int) -> tuple[int, float, float]:
        """The best one but none, the misfit that it leaves, and the shift that fits best, maybe none, in
        fractions of a step.
        """
        steps, misfits = len(self.predicted), {0: self.before}
        for lag in range(-largest, largest + 1):
            first, last = max(0, -lag), min(steps, len(self.actions) - lag)
            if lag == 0 or last - first < max(8, steps // 2):
                continue
            misfits[lag] = self.model.misfit(
                self.actions[first + lag : last + lag], self.predicted[first:last]
            )
        best = min((lag for lag in misfits if lag), key=lambda lag: misfits[lag], default=0)
        nearest = min(misfits, key=lambda lag: misfits[lag])
        return best, misfits[best], nearest + _vertex(*(misfits.get(nearest + by) for by in (-1, 0, 1)))

    def _slopes(self) -> Vector:
        """Of recorded over predicted actions, (A,): 1 for sound ones, -1 for mirrored ones, 0 where the robot
        moves less along a dimension than the noise.
        """
        recorded, predicted = self.recorded - self.model.mean, self.predicted - self.model.mean
        noise = len(predicted) * self.model.noise**2
        return np.asarray((recorded * predicted).sum(axis=0) / ((predicted**2).sum(axis=0) + noise + 1e-12))

    def _best_signs(self) -> tuple[NDArray[np.int64], float]:
        """Each dimension by itself, and all whose recorded and predicted actions point apart."""
        mean = self.model.mean
        products = ((self.recorded - mean) * (self.predicted - mean)).sum(axis=0)
        against = np.flatnonzero(products < 0)
        together = np.intersect1d(against, self.explained)
        best, least = np.ones(self.actions.shape[1], np.int64), np.inf
        for flipped in [[dimension] for dimension in self.explained] + [together.tolist()]:
            if not flipped:
                continue
            signs = np.ones(self.actions.shape[1], np.int64)
            signs[flipped] = -1
            misfit = self.model.misfit(self.recorded * signs, self.predicted)
            if misfit < least:
                best, least = signs, misfit
        return best, (least if np.isfinite(least) else self.before)

    def _best_scale(self) -> tuple[Vector, float]:
        """One factor for all dimensions, or for those alone that need one: a gripper has its own unit."""
        factors = np.array(
            [
                scale_factor(self.recorded[:, [d]], self.predicted[:, [d]], self.model, [d])
                for d in range(self.actions.shape[1])
            ]
        )
        wrong = np.abs(np.log(factors)) > np.abs(LEAST[-1])
        best, least = np.ones(len(factors)), np.inf
        for chosen in (self.explained, np.intersect1d(self.explained, np.flatnonzero(wrong))):
            if not len(chosen):
                continue
            scale = np.ones(len(factors))
            scale[chosen] = scale_factor(
                self.recorded[:, chosen], self.predicted[:, chosen], self.model, chosen.tolist()
            )
            misfit = self.model.misfit(self.recorded / scale, self.predicted)
            if misfit < least:
                best, least = scale, misfit
        return best, (least if np.isfinite(least) else self.before)

    def _best_order(self) -> tuple[list[int], float]:
        best, least = list(range(self.actions.shape[1])), np.inf
        for first, second in combinations(self.explained.tolist(), 2):
            order = list(range(self.actions.shape[1]))
            order[first], order[second] = second, first
            misfit = self.model.misfit(self.recorded[:, order], self.predicted)
            if misfit < least:
                best, least = order, misfit
        return best, (least if np.isfinite(least) else self.before)


def diagnose(demo: int, changes: Changes, p_values: Vector, null: Null, usual: float) -> Evidence:
    """The change that explains the misfit best among those that help more than they would by chance, or the
    bare fact.

    Args:
        demo: number of the demonstration.
        changes: of its actions.
        p_values: of `Changes.statistics`, corrected for their number.
        null: statistics of sound demonstrations; what a change leaves must be usual among their misfits.
        usual: misfit of sound demonstrations.
    """
    of_changes: dict[RepairKind, float] = dict(zip(CHANGES, p_values[-len(CHANGES) :].tolist(), strict=True))
    for kind, located in LOCATED:
        of_changes[kind] = min(of_changes[kind], float(p_values[located]))
    repairs = [changes.repair(kind, usual) for kind, p in of_changes.items() if p < SUSPICIOUS]
    left = null.first_p_values(np.log([repair.residual_after * usual + 1e-12 for repair in repairs]))
    repairs = [
        repair
        for repair, p in zip(repairs, left.tolist(), strict=True)
        if repair.residual_after < repair.residual_before and (p > STILL_UNUSUAL or _removed(repair) > 0.5)
    ]
    if not repairs and changes.before > CERTAIN_BEFORE * usual:
        every = [changes.repair(kind, usual) for kind in CHANGES]
        repairs = [repair for repair in every if repair.residual_after < CERTAIN_AFTER]
    best = min(repairs, key=lambda repair: repair.residual_after, default=None)
    before, p = changes.before / usual, float(p_values.min())
    if best is None:
        text = (
            f"actions do not fit the motion beside them (residual {before:.1f} × usual), for no simple reason"
        )
        return Evidence(DYNAMICS, "actions", demo, before, p, text)
    text = f"{_words(best)} (residual {before:.1f} × usual, {best.residual_after:.1f} × after correcting it)"
    return Evidence(DYNAMICS, best.kind, demo, before, p, text, repair=best)


def _vertex(before: float | None, least: float | None, after: float | None) -> float:
    """Where the parabola through three squared misfits is least, in steps from the middle one."""
    if before is None or least is None or after is None:
        return 0.0
    bend = before**2 - 2 * least**2 + after**2
    return 0.5 * (before**2 - after**2) / bend if bend > 0 else 0.0


def _removed(repair: Repair) -> float:
    """Share of what is beyond the usual misfit that a change removes."""
    return (repair.residual_before - repair.residual_after) / max(repair.residual_before - 1.0, 1e-9)


def _words(repair: Repair) -> str:
    if repair.kind == "lag":
        late = "lag" if repair.lag > 0 else "lead"
        return f"actions {late} the motion by {abs(repair.lag)} steps"
    if repair.kind == "sign":
        flipped = [str(d) for d, sign in enumerate(repair.signs) if sign < 0]
        return f"action dimension {' and '.join(flipped)} is mirrored"
    if repair.kind == "scale":
        changed = [d for d, factor in enumerate(repair.scale) if factor != 1.0]
        factor = np.median([repair.scale[d] for d in changed])
        part = "" if len(changed) == len(repair.scale) else f" in dimension {' and '.join(map(str, changed))}"
        return f"actions are {factor:.2g} times as large as the motion needs{part}"
    if repair.kind == "permutation":
        moved = [str(d) for d, other in enumerate(repair.order) if other != d]
        return f"action dimensions {' and '.join(moved)} are swapped"
    return "actions have a constant offset"
