"""Do the actions of a demonstration fit its motion, and if not, what would make them fit?

The model is that of the check `inverse-dynamics`: a linear map from the motion after a step to the action at
that step, fitted on sound demonstrations. Of every demonstration its misfit is measured, and how much smaller
it becomes with the actions shifted in time, with signs changed, two dimensions exchanged, offset or rescaled.
A sound demonstration may fit badly, for instance where the robot touches something; no such change makes it
fit better.
"""

from __future__ import annotations

import numpy as np

from beacon.audit.calibration import Members, Null, calibrate
from beacon.audit.diagnosis import CHANGES, LEAST, SHIFT, SLOPE, TWO_SIDED, Changes, diagnose
from beacon.audit.dynamics_model import DynamicsModel, DynamicsOptions, beside, fit_model, follow_slowly
from beacon.audit.evidence import SUSPICIOUS, CheckResult, Matrix
from beacon.audit.recordings import Recording

# Misfit and roughness differ between sound demonstrations as they do between the target's.
LOCATED = [SHIFT, SLOPE]
LEVELS = np.arange(len(LEAST)) < 2


def check_dynamics(
    recordings: list[Recording], target: list[Recording], options: DynamicsOptions
) -> CheckResult:
    """Compare actions with motion in every demonstration of a source set; scores are misfits, 1 is usual.

    The target's model ranks the demonstrations. The best of a large set are then where the search for its
    sound part begins, so that a source with other dynamics is judged by its own. Where one and the same
    change makes the whole set fit the target's model, the whole set is wrong, and the target remains the
    yardstick.

    Args:
        recordings: of the set.
        target: of the target.
        options: of the check.
    """
    options = follow_slowly(target, options)
    trusted = fit_model(target, options)
    if trusted is None:
        return CheckResult.silent(len(recordings), _why_not(target))
    model, left_out = trusted
    by_target = [_changes(r, beside(r, model)[1], model, options) for r in recordings]
    null = [_changes(r, p, model, options) for r, p in zip(target, left_out, strict=True)]
    trusted_statistics = _statistics(null)
    yardstick = Null(trusted_statistics, None, LEAST, TWO_SIDED, options.calibration.least_spread)
    unusual = yardstick.p_values(_statistics(by_target))
    misfits = np.array([changes.before for changes in by_target])
    usual = float(np.median([changes.before for changes in null]))
    best = float(np.quantile(misfits, options.calibration.sound_share / 2) / usual)
    remark = None
    if best > options.usual_misfit:
        remark = f"actions move this robot otherwise than the target's (misfit {best:.1f} × the target's own)"
    if len(recordings) < options.enough or _is_wrong_as_a_whole(by_target, usual, best, options):
        return _result(by_target, unusual, yardstick, usual, remark)
    # The target's model has not seen the set, so what is wrong in most of it does not become usual.
    located = _statistics(by_target)[:, LOCATED] if remark is None else None
    own = _OwnYardstick(recordings, options, located)
    try:
        calibrated = calibrate(
            own.measure,
            len(recordings),
            options.calibration,
            start=_least_unusual(unusual, options),
            may_join=_fit_the_target(unusual, options) if remark is None else None,
            trusted=np.where(LEVELS, trusted_statistics, np.nan),
            least=LEAST,
            two_sided=TWO_SIDED,
        )
    except _CannotTell:
        return CheckResult.silent(len(recordings), remark)
    usual = float(np.median(np.exp(calibrated.statistics[calibrated.members, 0])))
    return _result(own.changes, calibrated.p_values, calibrated.null, usual, remark)


def _why_not(target: list[Recording]) -> str:
    """Why actions cannot be held against motion."""
    if not target[0].state.shape[1]:
        return "without proprioception actions were not held against motion"
    if len(target) < 2:
        return "one target demonstration makes no model of motion: actions were not held against it"
    return "the target's motion does not explain its actions: they were not held against it"


def _changes(
    recording: Recording, predicted: Matrix, model: DynamicsModel, options: DynamicsOptions
) -> Changes:
    return Changes(recording.actions.astype(np.float64), predicted, model, options.largest_lag)


def _statistics(changes: list[Changes]) -> Matrix:
    return np.stack([each.statistics() for each in changes])


def _result(
    changes: list[Changes], p_values: Matrix, null: Null, usual: float, remark: str | None
) -> CheckResult:
    corrected = np.minimum(1.0, p_values * p_values.shape[1])
    combined = corrected.min(axis=1)
    evidence = [
        diagnose(number, changes[number], corrected[number], null, usual)
        for number in np.flatnonzero(combined < SUSPICIOUS).tolist()
    ]
    misfits = np.array([each.before for each in changes]) / usual
    return CheckResult(combined, misfits, evidence, remark)


class _CannotTell(Exception):
    """The set's motion does not explain its actions."""


class _OwnYardstick:
    """Measures a set by a model of its own sound part.

    Args:
        recordings: of the set.
        options: of the check.
        located: (demos, 2) shifts in time and slopes by the target's model; None: by the set's.
    """

    def __init__(self, recordings: list[Recording], options: DynamicsOptions, located: Matrix | None) -> None:
        self._recordings, self._options, self._located = recordings, options, located
        self.changes: list[Changes] = []

    def measure(self, members: Members) -> Matrix:
        """Statistics of all, (demos, statistics); members by models of the other members."""
        fitted = fit_model([self._recordings[n] for n in np.flatnonzero(members)], self._options)
        if fitted is None:
            raise _CannotTell
        model, left_out = fitted
        own = dict(zip(np.flatnonzero(members).tolist(), left_out, strict=True))
        self.changes = [
            _changes(r, own[n] if n in own else beside(r, model)[1], model, self._options)
            for n, r in enumerate(self._recordings)
        ]
        statistics = _statistics(self.changes)
        if self._located is not None:
            statistics[:, LOCATED] = self._located
        return statistics


def _least_unusual(p_values: Matrix, options: DynamicsOptions) -> Members:
    count = max(2, round(options.calibration.sound_share * len(p_values)))
    chosen = np.zeros(len(p_values), np.bool_)
    chosen[np.argsort(-p_values.min(axis=1), kind="stable")[:count]] = True
    return chosen


def _fit_the_target(p_values: Matrix, options: DynamicsOptions) -> Members:
    """Whom the target's model does not contradict; where most of a set are wrong, this alone tells them."""
    return np.asarray(p_values.min(axis=1) * p_values.shape[1] > options.calibration.joins)


def _is_wrong_as_a_whole(
    by_target: list[Changes], usual: float, best: float, options: DynamicsOptions
) -> bool:
    """Whether nearly all demonstrations need the same change to fit the target's model."""
    if best <= options.usual_misfit:
        return False
    needed = []
    for changes in by_target:
        repairs = [changes.repair(kind, usual) for kind in CHANGES]
        repair = min(repairs, key=lambda repair: repair.residual_after)
        if repair.residual_after < options.usual_misfit < repair.residual_before:
            needed.append((repair.kind, repair.lag, repair.signs, repair.order))
    return max((needed.count(change) for change in set(needed)), default=0) >= 0.9 * len(by_target)
