"""What the pictures alone tell: frozen and dropped frames."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from beacon.audit.calibration import CalibrationOptions, calibrate
from beacon.audit.evidence import SUSPICIOUS, Evidence, Matrix, Vector
from beacon.audit.recordings import Recording, longest_run, speed

FRAMES = "frames"  # name of the check of frozen and dropped frames
CERTAIN = 1e-9  # p-value of what no sound recording does


@dataclass(frozen=True)
class PictureOptions:
    """Options of the checks of pictures."""

    # Frames of a demonstration whose pictures are compared with the state.
    camera_frames: int = 12
    # Demonstrations from which on cameras and jumps are judged by their set.
    enough: int = 10
    # Identical pictures in a row, while the robot moves, that count as frozen.
    frozen_frames: int = 6
    # So many times the motion that sound still pictures do not show makes a camera that hangs.
    unseen_motion: float = 3.0
    # How the sound part of a set is found.
    calibration: CalibrationOptions = field(default_factory=CalibrationOptions)


def check_frames(
    recordings: list[Recording], target: list[Recording], options: PictureOptions
) -> list[Evidence]:
    """Pictures that stand still while the robot moves, and jumps from one picture to the next.

    Args:
        recordings: of the set.
        target: of the target, whose largest changes vary as sound ones do.
        options: of the check.
    """
    seen = [number for number, r in enumerate(recordings) if _has_frames(r)]
    trusted = [r for r in target if _has_frames(r)]
    frozen = _frozen(recordings, seen, options)
    explained = {item.demo for item in frozen}  # a picture that hung jumps when it goes on
    jumps = _jumps(recordings, seen, trusted, options)
    return [*frozen, *(item for item in jumps if item.demo not in explained)]


def _has_frames(recording: Recording) -> bool:
    return bool(recording.pictures.shape[1] and recording.state.shape[1] and len(recording.state) > 2)


def _frozen(recordings: list[Recording], seen: list[int], options: PictureOptions) -> list[Evidence]:
    """The null are still pictures of sound demonstrations: small ones do not show small motions."""
    if not seen:
        return []
    speeds = np.concatenate([speed(recordings[number]) for number in seen])
    usual_speed = float(np.median(speeds[speeds > 0])) if (speeds > 0).any() else np.inf
    runs = {number: _still_run(recordings[number]) for number in seen}
    motions = [motion for _, _, motion in runs.values()]
    usual = float(np.quantile(motions, options.calibration.sound_share, method="lower"))
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


def _jumps(
    recordings: list[Recording], seen: list[int], target: list[Recording], options: PictureOptions
) -> list[Evidence]:
    """A change of picture or state that is larger than those beside it; where a frame is missing, it is
    twice as large. The null are the largest such ratios of sound demonstrations.
    """
    if len(seen) < options.enough:
        return []
    ratios = np.log(np.array([[_spikes(s).max() for s in _series(recordings[n])] for n in seen]))
    trusted = np.log(np.array([[_spikes(s).max() for s in _series(r)] for r in target])).reshape(-1, 2)
    calibrated = calibrate(lambda _: ratios, len(seen), options.calibration, trusted=trusted)
    p_values = _largest_p_values(ratios, ratios[calibrated.members], trusted)
    p_values = np.where(ratios > np.log(2.0), np.minimum(1.0, 2 * p_values), 1.0)
    evidence = []
    for row in np.flatnonzero(p_values.min(axis=1) < SUSPICIOUS).tolist():
        column = int(p_values[row].argmin())
        frame = int(_spikes(_series(recordings[seen[row]])[column]).argmax()) + 1
        size, p = float(np.exp(ratios[row, column])), float(p_values[row, column])
        text = (
            f"the {('picture', 'robot')[column]} jumps at frame {frame} "
            f"({size:.1f} × the changes beside it): frames are missing"
        )
        evidence.append(Evidence(FRAMES, "dropped frames", seen[row], size, p, text, (frame - 1, frame)))
    return evidence


def _largest_p_values(values: Matrix, sound: Matrix, trusted: Matrix) -> Matrix:
    """p-values of values that are the largest of many, by Gumbel's distribution, column by column.

    Args:
        values: (demos, columns).
        sound: (sound demonstrations, columns).
        trusted: (target's, columns), whose spread counts where it is larger.
    """
    from scipy.stats import gumbel_r

    spread = sound.std(axis=0)
    if len(trusted) > 2:
        spread = np.maximum(spread, trusted.std(axis=0))
    scale = np.maximum(spread, 1e-6) * np.sqrt(6) / np.pi
    return np.asarray(gumbel_r.sf(values, sound.mean(axis=0) - np.euler_gamma * scale, scale))


def _series(recording: Recording) -> tuple[Vector, Vector]:
    """How much the picture and the state change at every step, (T − 1,) each."""
    return recording.change[1:].astype(np.float64), speed(recording)


def _spikes(changes: Vector) -> Vector:
    """Every change against the larger one beside it; small ones count as usual ones."""
    usual = float(np.median(changes)) + 1e-9
    around = np.pad(changes, 1, mode="edge")
    return np.asarray((changes + usual) / (np.maximum(around[:-2], around[2:]) + usual))
