"""Do the pictures show the robot where its state says? From another camera it is seen elsewhere.

Most of a set are taken to have the right camera. Where about as many have a second one, numbers do not tell
which is right. The target does, if its camera is one of the two or alike. Otherwise nobody is accused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from beacon.audit.calibration import Calibrated, Members, calibrate
from beacon.audit.evidence import SUSPICIOUS, CheckResult, Matrix, Vector, evidence_from_p_values
from beacon.audit.modes import FEW, better_part
from beacon.audit.pictures import PictureOptions
from beacon.audit.recordings import Recording
from beacon.audit.regression import cross_fitted_residuals, principal_components

Demos = NDArray[np.int64]  # number of the demonstration of every frame
COMPONENTS = 16  # of coarse pictures
RIDGE = 0.1  # of the regression
LARGEST, FEWER = 2000, 400  # frames that models are fitted on, at most; while two parts are looked for
GUESSES = 3  # from which two parts are looked for
CERTAIN_CAMERA = 0.01  # p-value at which the target tells which of two cameras is right


def check_cameras(
    recordings: list[Recording], target: list[Recording], options: PictureOptions
) -> CheckResult:
    """Whether the pictures show the robot where its state says.

    Coarse pictures are predicted from the state by demonstrations of other folds.

    Args:
        recordings: of the set.
        target: of the target, which may tell which of two cameras is right.
        options: of the check.
    """
    count = len(recordings)
    if count < options.enough or not recordings[0].pictures.shape[1] or not recordings[0].state.shape[1]:
        return CheckResult.silent(count)
    views = _Views(recordings, options)

    def measure(members: Members) -> Matrix:
        return np.asarray(np.log(views.misfits(members) + 1e-9)[:, None])

    part = better_part(
        lambda members: np.log(views.misfits(members, FEWER) + 1e-9)[:, None],
        count,
        options.calibration,
        GUESSES,
    )
    calibrated = calibrate(measure, count, options.calibration, start=part, is_whole=part is not None)
    other = calibrated.combined < SUSPICIOUS
    if _is_second_camera(other, calibrated, measure, options):
        if part is not None:
            other = ~part  # as it was cut off, without the tail of the first part
        right = right_camera(recordings, target, ~other, other, options)
        if right is None:
            return CheckResult.silent(
                count,
                f"two cameras have taken this set ({(~other).sum()} and {other.sum()} demonstrations), and "
                "the target does not tell which is right",
            )
        fits = measure(right)[:, 0] < measure(~right)[:, 0]  # the right camera better than the other one
        calibrated = calibrate(measure, count, options.calibration, start=right, is_whole=True, may_join=fits)
    misfits = np.exp(calibrated.statistics[:, 0])
    usual = float(np.median(misfits[calibrated.members]))

    def words(number: int) -> str:
        return (
            "another camera: pictures do not show the robot where its state says "
            f"(off {misfits[number] / usual:.1f} × as much as is usual in its set)"
        )

    p_values, scores = calibrated.combined, calibrated.scores
    evidence = evidence_from_p_values("camera", "another camera", p_values, scores, words)
    return CheckResult(p_values, scores, evidence)


class _Views:
    """Some frames of every demonstration with their states."""

    def __init__(self, recordings: list[Recording], options: PictureOptions) -> None:
        self._demo, self._state, pictures = _frames(recordings, options)
        self._views = principal_components(pictures, COMPONENTS)
        self._fold = np.random.default_rng(0).permutation(len(recordings))[self._demo]

    def misfits(self, members: Members, largest: int = LARGEST) -> Vector:
        """How far the pictures of a demonstration are from what its states make expect, (demos,).

        Args:
            members: demonstrations that models are fitted on.
            largest: frames that a model is fitted on, at most.
        """
        residuals, _ = cross_fitted_residuals(
            self._state, self._views, self._fold, usable=members[self._demo], ridge=RIDGE, largest=largest
        )
        sums = np.bincount(self._demo, (residuals**2).mean(axis=1))
        return np.asarray(np.sqrt(sums / np.bincount(self._demo)))


def _frames(recordings: list[Recording], options: PictureOptions) -> tuple[Demos, Matrix, Matrix]:
    """Demonstration, scaled state and coarse picture of every frame that is looked at."""
    steps = [
        np.unique(np.linspace(0, len(r.state) - 1, options.camera_frames).astype(int)) for r in recordings
    ]
    pairs = list(zip(recordings, steps, strict=True))
    demo = np.repeat(np.arange(len(recordings)), [len(chosen) for chosen in steps])
    state = np.concatenate([r.state[s] for r, s in pairs]).astype(np.float64)
    state = (state - state.mean(axis=0)) / (state.std(axis=0) + 1e-6)
    return demo, state, np.concatenate([r.pictures[s] for r, s in pairs]).astype(np.float64)


def _is_second_camera(
    other: Members, calibrated: Calibrated, measure: Callable[[Members], Matrix], options: PictureOptions
) -> bool:
    """Whether those that see the robot elsewhere are many, and see it in the same place as each other."""
    if other.sum() < max(options.enough, FEW * (~other).sum()):
        return False
    by_their_own = measure(other)[other]
    return bool((calibrated.null.p_values(by_their_own) > options.calibration.joins).mean() > 0.5)


def right_camera(
    recordings: list[Recording],
    target: list[Recording],
    first: Members,
    second: Members,
    options: PictureOptions,
) -> Members | None:
    """Which of two parts of a set sees the robot move as the target's camera does; None: neither, or both.

    A model of either part predicts how the target's pictures change within a demonstration. What is the same
    in all of its frames, such as another table, does not count. Beside another table the robot may be the
    darker one, so where neither part predicts how pictures change, where they change is asked.
    """
    if len(target) < 3 or target[0].pictures.shape[1] != recordings[0].pictures.shape[1]:
        return None
    demo, state, pictures = _frames([*recordings, *target], options)
    own = demo < len(recordings)
    changes = pictures.copy()
    changes[own] -= pictures[own].mean(axis=0)
    changes[~own] -= pictures[~own].mean(axis=0)
    for looks in (changes, _where_it_moves(pictures, demo)):
        views = principal_components(looks, COMPONENTS)
        misfits = []
        for part in (first, second):
            usable = np.concatenate([part, np.zeros(len(target), np.bool_)])[demo]
            residuals, units = cross_fitted_residuals(state, views, demo, usable=usable, ridge=RIDGE)
            misfits.append(_within(residuals[~own] * units[~own], demo[~own]))
        better = int(misfits[1].sum() < misfits[0].sum())
        if misfits[better].sum() < _within(views[~own], demo[~own]).sum():
            is_certain = _is_less(misfits[better], misfits[1 - better])
            return (first, second)[better] if is_certain else None
    return None


def _is_less(values: Vector, others: Vector) -> bool:
    """Whether values are smaller than others, pair by pair, beyond chance."""
    from scipy.stats import ttest_1samp

    ratios = np.log((others + 1e-9) / (values + 1e-9))
    return bool(ttest_1samp(ratios, 0.0, alternative="greater").pvalue < CERTAIN_CAMERA)


def _where_it_moves(pictures: Matrix, demo: Demos) -> Matrix:
    """Of every frame the share of each value in how far it is from the usual ones of its demonstration.

    Their square roots, so that the distance of two frames is Hellinger's.
    """
    moves = np.empty_like(pictures)
    for number in np.unique(demo):
        frames = pictures[demo == number]
        moves[demo == number] = np.abs(frames - np.median(frames, axis=0))
    return np.asarray(np.sqrt(moves / (moves.sum(axis=1, keepdims=True) + 1e-9)))


def _within(values: Matrix, demo: Demos) -> Vector:
    """Sum of squares about the mean of every demonstration, (demos,)."""
    return np.array(
        [((values[demo == n] - values[demo == n].mean(axis=0)) ** 2).sum() for n in np.unique(demo)]
    )
