"""Does a demonstration go where its first picture says? A wrong goal or object shows here.

Where the robot will be after parts of its path is predicted from the first picture and state, by
demonstrations of other folds. A demonstration that does not pass there, in this order, pursues another goal.
When it does is its own affair: one that lingers, or tries twice, goes where the others go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from beacon.audit.calibration import CalibrationOptions, Members, calibrate
from beacon.audit.evidence import CheckResult, Vector, evidence_from_p_values
from beacon.audit.modes import FEW, better_part
from beacon.audit.recordings import Recording, speed
from beacon.audit.regression import Matrix, cross_fitted_residuals, principal_components

CHECK = "goals"
ABREAST = 32  # demonstrations that are compared with their places at once


@dataclass(frozen=True)
class GoalOptions:
    """Options of the check of goals."""

    # Shares of an episode's path after which the robot's state is predicted.
    moments: tuple[float, ...] = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
    # Principal components of the first pictures.
    components: int = 48
    # Of the regression.
    ridge: float = 3e-2
    # Demonstrations, at least.
    enough: int = 20
    # Share of the variance of some coordinate that first pictures must explain.
    least_explained: float = 0.1
    # Distance in a coordinate that says nothing of a goal, in standard deviations of it over all steps.
    least_distance: float = 0.05
    # How the sound part of a set is found.
    calibration: CalibrationOptions = field(default_factory=CalibrationOptions)


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
    ways = np.stack([_by_path(recording, options.moments) for recording in recordings])
    states, misfits = _States(recordings), np.ones(count)

    def measure(members: Members) -> Matrix:
        nonlocal misfits
        misfits, units = _misfits(states, features, members, options, ways)
        return _beside_their_units(np.log(misfits + 1e-9), np.log(units), members)[:, None]

    try:
        part = better_part(measure, count, options.calibration)
        if part is not None and (~part).sum() >= FEW * part.sum():
            return CheckResult.silent(
                count,
                f"demonstrations that look alike pursue two goals ({part.sum()} and {(~part).sum()}): "
                "neither was called wrong",
            )
        calibrated = calibrate(measure, count, options.calibration, start=part, is_whole=part is not None)
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


def _misfits(
    states: _States, features: Matrix, members: Members, options: GoalOptions, ways: Matrix
) -> tuple[Vector, Vector]:
    """How far every demonstration passes from where the others' pictures say, and how well these can tell,
    (demos,) each.
    """
    centre, spread = ways[members].mean(axis=0), ways[members].std(axis=0)
    varies = spread > 1e-9
    spread = np.where(varies, spread, 1.0)
    scaled = np.where(varies, (ways - centre) / spread, 0.0)
    order = np.random.default_rng(0).permutation(len(ways))
    residuals, scale = cross_fitted_residuals(features, scaled, order, usable=members, ridge=options.ridge)
    # Only what the pictures explain can be wrong: dimensions count by their explained variance.
    usual = np.median(np.abs(residuals[members]), axis=0)
    plain = np.median(np.abs(residuals * scale)[members], axis=0)
    explained = np.where(varies, np.clip(1 - (1.4826 * plain) ** 2, 0, 1), 0)
    if explained.max() < options.least_explained:
        raise _NothingExplained
    predicted = centre + (scaled - residuals * scale) * spread
    # What hardly varies, such as a gripper that is closed in all, must not count for much.
    least = options.least_distance * states.spread
    least = np.maximum(np.tile(least, len(options.moments)), 1e-9)
    weights = np.sqrt(explained / explained.sum()) / (np.maximum(spread * usual, least) * scale)
    return states.passes(predicted, weights), scale[:, 0]


def _beside_their_units(misfits: Vector, units: Vector, members: Members) -> Vector:
    """Logarithms of misfits less what a sound demonstration has where pictures can tell as badly.

    Misfits are in units of how well the regression thinks that it can tell. How much more it errs at the edge
    of a set than amid it is learned from the sound part: where it errs as it thinks, nothing changes.
    """
    centred = units - units[members].mean()
    variance = float((centred[members] ** 2).mean())
    slope = float((centred[members] * misfits[members]).mean()) / variance if variance > 1e-9 else 0.0
    return np.asarray(misfits - max(slope, 0.0) * centred)


class _States:
    """States of demonstrations, some of about the same length side by side; short ones stand at the end."""

    def __init__(self, recordings: list[Recording]) -> None:
        self.spread = np.concatenate([r.state for r in recordings]).std(axis=0)  # of each dimension
        lengths = np.array([len(r.state) for r in recordings])
        order = np.argsort(lengths, kind="stable")
        self._parts = []  # numbers of demonstrations, and their states (demos, steps, D)
        for chosen in np.split(order, range(ABREAST, len(order), ABREAST)):
            steps = np.minimum(np.arange(lengths[chosen].max()), lengths[chosen, None] - 1)
            states = [recordings[n].state[row] for n, row in zip(chosen.tolist(), steps, strict=True)]
            self._parts.append((chosen, np.stack(states)))

    def passes(self, predicted: Matrix, weights: Matrix) -> Vector:
        """How far demonstrations stay from places that they should pass one after the other, at any pace,
        and from the one where they should end, (demos,).

        Args:
            predicted: (demos, K · D) states.
            weights: (demos, K · D) of the differences.
        """
        passes = np.empty(len(predicted))
        for chosen, states in self._parts:
            count, steps, dimensions = states.shape
            places = predicted[chosen].reshape(count, -1, 1, dimensions)
            weight = weights[chosen].reshape(places.shape)
            best = np.zeros((count, steps))  # least cost of the places so far, the last one passed by a step
            for number in range(places.shape[1] - 1):
                far = ((states - places[:, number]) * weight[:, number]) ** 2
                best = np.minimum.accumulate(best + far.sum(axis=2), axis=1)
            end = ((states[:, -1] - places[:, -1, 0]) * weight[:, -1, 0]) ** 2
            passes[chosen] = np.sqrt(best[:, -1] + end.sum(axis=1))
        return passes


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
