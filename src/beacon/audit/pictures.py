"""What the pictures alone tell: another camera, frozen and dropped frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.audit.evidence import Evidence, Vector
from beacon.audit.look_alikes import robust_scores
from beacon.audit.recordings import Recording
from beacon.audit.regression import cross_fitted_residuals, principal_components

CERTAIN = 1e-9  # p-value of what no sound recording does


@dataclass(frozen=True)
class PictureOptions:
    """Options of the checks of pictures."""

    # Frames of a demonstration whose pictures are compared with the state.
    camera_frames: int = 12
    # Robust standard deviations from which on it is another camera.
    camera_score: float = 2.0
    # Identical pictures in a row, while the robot moves, that count as frozen.
    frozen_frames: int = 6
    # A frame that changes so many times as much as is usual for its set counts as a jump.
    jump: float = 6.0


def check_cameras(recordings: list[Recording], options: PictureOptions) -> tuple[Vector, list[Evidence]]:
    """Whether the pictures show the robot where its state says: scores (demos,) and evidence.

    Coarse pictures are predicted from the state by demonstrations of other folds. From another camera the
    robot is seen elsewhere.
    """
    count = len(recordings)
    if count < 10 or not recordings[0].pictures.shape[1] or not recordings[0].state.shape[1]:
        return np.zeros(count), []
    steps = [
        np.unique(np.linspace(0, len(r.state) - 1, options.camera_frames).astype(int)) for r in recordings
    ]
    demo = np.repeat(np.arange(count), [len(chosen) for chosen in steps])
    state = np.concatenate([r.state[s] for r, s in zip(recordings, steps, strict=True)]).astype(np.float64)
    state = (state - state.mean(axis=0)) / (state.std(axis=0) + 1e-6)
    views = np.concatenate([r.pictures[s] for r, s in zip(recordings, steps, strict=True)]).astype(np.float64)
    views = principal_components(views, 16)
    fold = np.random.default_rng(0).permutation(count)[demo]
    residuals = cross_fitted_residuals(state, views, fold, ridge=1e-1)
    misfits = np.sqrt(np.bincount(demo, (residuals**2).mean(axis=1)) / np.bincount(demo))
    scores = robust_scores(np.log(misfits + 1e-9))
    from scipy.stats import norm

    evidence = [
        Evidence(
            "camera",
            "another camera",
            int(number),
            float(scores[number]),
            float(norm.sf(scores[number])),
            "another camera: pictures do not show the robot where its state says "
            f"(off {misfits[number] / np.median(misfits):.1f} × as much as is usual in its set)",
        )
        for number in np.flatnonzero(scores > options.camera_score)
    ]
    return scores, evidence


def check_frames(recordings: list[Recording], options: PictureOptions) -> list[Evidence]:
    """Pictures that stand still while the robot moves, and jumps from one picture to the next."""
    evidence: list[Evidence] = []
    moving = [r for r in recordings if r.pictures.shape[1] and r.state.shape[1] and len(r.state) > 2]
    if not moving:
        return evidence
    speeds = np.concatenate([_speed(r) for r in moving])
    usual_speed = float(np.median(speeds[speeds > 0])) if (speeds > 0).any() else 0.0
    changes = np.concatenate([r.change[1:] for r in moving])
    usual_change = float(np.quantile(changes, 0.95))
    for number, recording in enumerate(recordings):
        if recording not in moving:
            continue
        still = recording.change <= 0.0
        still[0] = False
        first, last = _longest_run(still & (np.append(_speed(recording), 0.0) > 0.2 * usual_speed))
        if last - first + 1 >= options.frozen_frames:
            text = f"frames {first - 1}–{last} are the same picture while the robot moves"
            evidence.append(
                Evidence(
                    "frames", "frozen frames", number, last - first + 1, CERTAIN, text, (first - 1, last)
                )
            )
        jumps = np.flatnonzero(recording.change > options.jump * usual_change)
        if len(jumps) and usual_change > 0:
            text = f"the picture jumps at frame {jumps[0]}: frames were dropped before it"
            size = float(recording.change[jumps[0]] / usual_change)
            frames = (int(jumps[0]) - 1, int(jumps[0]))
            evidence.append(Evidence("frames", "dropped frames", number, size, CERTAIN, text, frames))
    return evidence


def _speed(recording: Recording) -> Vector:
    return np.asarray(np.linalg.norm(np.diff(recording.state.astype(np.float64), axis=0), axis=1))


def _longest_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """First and last index of the longest run of true entries; (0, -1) without any."""
    best, start = (0, -1), None
    for index, flag in enumerate([*flags.tolist(), False]):
        if flag and start is None:
            start = index
        elif not flag and start is not None:
            if index - 1 - start > best[1] - best[0]:
                best = (start, index - 1)
            start = None
    return best
