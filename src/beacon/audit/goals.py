"""Does a demonstration go where its first picture says? A wrong goal or object shows here.

Where the robot will be after a part of its time or path is predicted from the first picture and state, by
demonstrations of other folds. A demonstration that goes elsewhere pursues another goal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from beacon.audit.calibration import CalibrationOptions, Members, calibrate
from beacon.audit.evidence import CheckResult, Vector, evidence_from_p_values
from beacon.audit.recordings import Recording, speed
from beacon.audit.regression import Matrix, cross_fitted_residuals, principal_components

CHECK = "goals"


@dataclass(frozen=True)
class GoalOptions:
    """Options of the check of goals."""

    # Shares of an episode's time, and of its path, after which the robot's state is predicted.
    moments: tuple[float, ...] = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
    # Principal components of the first pictures.
    components: int = 48
    # Of the regression.
    ridge: float = 3e-2
    # Demonstrations, at least.
    enough: int = 20
    # Share of the variance of some coordinate that first pictures must explain.
    least_explained: float = 0.1
    # How the sound part of a set is found. Wrong goals hardly differ from right ones that are unusual, and
    # what is wrong and joins teaches where to go.
    calibration: CalibrationOptions = field(default_factory=lambda: CalibrationOptions(joins=0.01))


def check_goals(recordings: list[Recording], options: GoalOptions) -> CheckResult:
    """Whether demonstrations go where their first pictures say."""
    count = len(recordings)
    if count < options.enough:
        return CheckResult.silent(count, f"{count} demonstrations are too few to tell where one should go")
    if not recordings[0].first_picture.size or not recordings[0].state.shape[1]:
        return CheckResult.silent(
            count, "without pictures and proprioception nothing tells where one should go"
        )
    features = _beginnings(recordings, options)
    ways = [np.stack([way(r, options.moments) for r in recordings]) for way in (_by_time, _by_path)]
    misfits = np.ones(count)

    def measure(members: Members) -> Matrix:
        nonlocal misfits
        # Who lingers is elsewhere by time, who makes a detour by path; another goal is elsewhere by both.
        misfits = np.minimum(*(_misfits(features, way, members, options) for way in ways))
        return np.asarray(np.log(misfits + 1e-9)[:, None])

    try:
        calibrated = calibrate(measure, count, options.calibration)
    except _NothingExplained:
        return CheckResult.silent(count, "first pictures do not tell where the robot goes")
    usual = float(np.median(misfits[calibrated.members]))

    def words(number: int) -> str:
        return (
            "moves towards another object or goal than demonstrations that look alike "
            f"({misfits[number] / usual:.1f} × as far off as is usual)"
        )

    p_values, scores = calibrated.combined, calibrated.scores
    evidence = evidence_from_p_values(CHECK, "another goal", p_values, scores, words)
    return CheckResult(p_values, scores, evidence)


class _NothingExplained(Exception):
    """First pictures say nothing about the way."""


def _misfits(features: Matrix, ways: Matrix, members: Members, options: GoalOptions) -> Vector:
    """How far every demonstration goes from where the others' pictures say, (demos,)."""
    spread = ways[members].std(axis=0)
    scaled = (ways - ways[members].mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    order = np.random.default_rng(0).permutation(len(ways))
    residuals, scale = cross_fitted_residuals(features, scaled, order, usable=members, ridge=options.ridge)
    # Only what the pictures explain can be wrong: dimensions count by their explained variance.
    centre = np.median(np.abs(residuals[members]), axis=0)
    plain = np.median(np.abs(residuals * scale)[members], axis=0)
    explained = np.where(spread > 1e-9, np.clip(1 - (1.4826 * plain) ** 2, 0, 1), 0)
    if explained.max() < options.least_explained:
        raise _NothingExplained
    share = explained / explained.sum()
    return np.asarray(np.sqrt((residuals / np.maximum(centre, 1e-6)) ** 2 @ share))


def explained_ways(recordings: list[Recording], options: GoalOptions) -> Vector:
    """The share of the variance of the way that first pictures and states explain, 1 for constants.

    Args:
        recordings: with pictures and proprioception.
        options: which moments of the way, and of the regression.
    """
    ways = np.stack([_by_time(recording, options.moments) for recording in recordings])
    spread = ways.std(axis=0)
    scaled = (ways - ways.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    order = np.random.default_rng(0).permutation(len(ways))
    features = _beginnings(recordings, options)
    residuals, scale = cross_fitted_residuals(features, scaled, order, ridge=options.ridge)
    plain = np.median(np.abs(residuals * scale), axis=0)
    return np.asarray(np.clip(1 - (1.4826 * plain) ** 2, 0, 1))


def _beginnings(recordings: list[Recording], options: GoalOptions) -> Matrix:
    """First pictures and states, (demos, F)."""
    pictures = np.stack([r.first_picture for r in recordings]).astype(np.float64)
    starts = np.stack([r.state[0] for r in recordings]).astype(np.float64)
    starts = 0.1 * (starts - starts.mean(axis=0)) / (starts.std(axis=0) + 1e-6)
    return np.concatenate([principal_components(pictures, options.components), starts], axis=1)


def _by_time(recording: Recording, moments: tuple[float, ...]) -> Vector:
    """Where the robot is after so much of its time."""
    steps = np.round(np.array(moments) * (len(recording.state) - 1)).astype(np.int64)
    return np.asarray(recording.state[steps].astype(np.float64).reshape(-1))


def _by_path(recording: Recording, moments: tuple[float, ...]) -> Vector:
    """Where the robot is after so much of its path."""
    travelled = np.concatenate([[0.0], np.cumsum(speed(recording))])
    steps = np.searchsorted(travelled, np.array(moments) * travelled[-1])
    return np.asarray(recording.state[np.minimum(steps, len(travelled) - 1)].astype(np.float64).reshape(-1))
