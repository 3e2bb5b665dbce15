"""What the pictures alone tell: another camera, frozen and dropped frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.audit.evidence import Evidence, Vector, evidence_from_scores
from beacon.audit.look_alikes import robust_scores
from beacon.audit.recordings import Recording, longest_run, speed
from beacon.audit.regression import cross_fitted_residuals, principal_components

FRAMES = "frames"  # name of the check of frozen and dropped frames
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
    # So many times the usual largest change of a demonstration's pictures is a jump.
    jump: float = 2.0
    # So many times the motion that sound still pictures do not show makes a camera that hangs.
    unseen_motion: float = 3.0
    # Share of a set that is taken to be sound, at least.
    sound_share: float = 0.4


def check_cameras(recordings: list[Recording], options: PictureOptions) -> tuple[Vector, list[Evidence]]:
    """Whether the pictures show the robot where its state says: scores (demos,) and evidence.

    Coarse pictures are predicted from the state by demonstrations of other folds. From another camera the
    robot is seen elsewhere.
    """
    count = len(recordings)
    if count < 10 or not recordings[0].pictures.shape[1] or not recordings[0].state.shape[1]:
        return np.zeros(count), []
    misfits = _camera_misfits(recordings, options)
    scores = robust_scores(np.log(misfits + 1e-9))

    def words(number: int) -> str:
        return (
            "another camera: pictures do not show the robot where its state says "
            f"(off {misfits[number] / np.median(misfits):.1f} × as much as is usual in its set)"
        )

    evidence = evidence_from_scores("camera", "another camera", scores, options.camera_score, words)
    return scores, evidence


def _camera_misfits(recordings: list[Recording], options: PictureOptions) -> Vector:
    """How far the pictures of a demonstration are from what its states make expect, (demos,)."""
    steps = [
        np.unique(np.linspace(0, len(r.state) - 1, options.camera_frames).astype(int)) for r in recordings
    ]
    demo = np.repeat(np.arange(len(recordings)), [len(chosen) for chosen in steps])
    state = np.concatenate([r.state[s] for r, s in zip(recordings, steps, strict=True)]).astype(np.float64)
    state = (state - state.mean(axis=0)) / (state.std(axis=0) + 1e-6)
    views = np.concatenate([r.pictures[s] for r, s in zip(recordings, steps, strict=True)]).astype(np.float64)
    views = principal_components(views, 16)
    fold = np.random.default_rng(0).permutation(len(recordings))[demo]
    residuals = cross_fitted_residuals(state, views, fold, ridge=1e-1)
    return np.asarray(np.sqrt(np.bincount(demo, (residuals**2).mean(axis=1)) / np.bincount(demo)))


def check_frames(recordings: list[Recording], options: PictureOptions) -> list[Evidence]:
    """Pictures that stand still while the robot moves, and jumps from one picture to the next."""
    seen = [
        number
        for number, r in enumerate(recordings)
        if r.pictures.shape[1] and r.state.shape[1] and len(r.state) > 2
    ]
    return [*_frozen(recordings, seen, options), *_jumps(recordings, seen, options)]


def _frozen(recordings: list[Recording], seen: list[int], options: PictureOptions) -> list[Evidence]:
    """The null are still pictures of sound demonstrations: small ones do not show small motions."""
    if not seen:
        return []
    speeds = np.concatenate([speed(recordings[number]) for number in seen])
    usual_speed = float(np.median(speeds[speeds > 0])) if (speeds > 0).any() else np.inf
    runs = {number: _still_run(recordings[number]) for number in seen}
    usual = float(np.quantile([motion for _, _, motion in runs.values()], options.sound_share))
    least = max(options.unseen_motion * usual, options.frozen_frames * 0.2 * usual_speed)
    return [
        Evidence(
            FRAMES,
            "frozen frames",
            number,
            float(last - first + 1),
            CERTAIN,
            f"frames {first - 1}–{last} are the same picture while the robot moves",
            (first - 1, last),
        )
        for number, (first, last, motion) in runs.items()
        if last - first + 1 >= options.frozen_frames and motion > least
    ]


def _still_run(recording: Recording) -> tuple[int, int, float]:
    """The longest run of pictures like the one before: first, last, and how far the robot moves meanwhile."""
    still = recording.change <= 0.0
    still[0] = False
    first, last = longest_run(still)
    return first, last, float(speed(recording)[max(first - 1, 0) : max(last, 0)].sum())


def _jumps(recordings: list[Recording], seen: list[int], options: PictureOptions) -> list[Evidence]:
    """The null are the largest changes of picture and state in sound demonstrations."""
    if not seen:
        return []
    changes = np.array([recordings[number].change[1:].max() for number in seen], np.float64)
    moves = np.array([speed(recordings[number]).max() for number in seen])
    changes /= max(float(np.quantile(changes, options.sound_share)), 1e-12)
    moves /= max(float(np.quantile(moves, options.sound_share)), 1e-12)
    evidence = []
    for number, change, move in zip(seen, changes.tolist(), moves.tolist(), strict=True):
        size = max(change, move)
        if size <= options.jump:
            continue
        series = recordings[number].change[1:] if change >= move else speed(recordings[number])
        frame = int(series.argmax()) + 1
        what = "picture" if change >= move else "robot"
        text = (
            f"the {what} jumps at frame {frame} ({size:.1f} × the usual largest change): frames are missing"
        )
        evidence.append(Evidence(FRAMES, "dropped frames", number, size, CERTAIN, text, (frame - 1, frame)))
    return evidence
