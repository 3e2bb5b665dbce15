"""How a demonstration was recorded: duplicates, standing still, saturated actions, jerk, missing success."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.audit.evidence import Evidence, Matrix, Vector
from beacon.audit.look_alikes import robust_scores
from beacon.audit.pictures import CERTAIN
from beacon.audit.recordings import Recording, longest_run, speed

COPY = 0.01  # distance, as a share of the median one of all pairs, below which two are copies for certain


@dataclass(frozen=True)
class HabitOptions:
    """Options of the remarks about how demonstrations were recorded."""

    # Distance of two demonstrations, as a share of the median distance of nearest ones, that makes
    # duplicates.
    duplicate: float = 0.05
    # Seconds without motion from which on it is said, and share of the usual speed that counts as none.
    still_seconds: float = 2.0
    still_speed: float = 0.02
    # Share of steps at the limit of an action dimension from which on it is said.
    saturated: float = 0.4
    # Robust standard deviations of smoothness from which on a demonstration is jerky.
    jerky: float = 4.0


def check_habits(recordings: list[Recording], fps: float, options: HabitOptions) -> list[Evidence]:
    """All remarks about a set.

    Args:
        recordings: of the set.
        fps: control steps a second.
        options: of the remarks.
    """
    return [
        *_duplicates(recordings, options),
        *_stillness(recordings, fps, options),
        *_saturation(recordings, options),
        *_jerk(recordings, fps, options),
        *_failures(recordings),
    ]


def _duplicates(recordings: list[Recording], options: HabitOptions) -> list[Evidence]:
    if len(recordings) < 3:
        return []
    signatures = np.stack([_signature(recording) for recording in recordings])
    spread = signatures.std(axis=0)
    # What hardly varies, such as a gripper that is open at this moment in all, must not count for much.
    signatures = signatures / np.maximum(spread, 0.1 * float(spread.mean()) + 1e-12)
    squares = (signatures**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * signatures @ signatures.T, 0))
    np.fill_diagonal(distances, np.inf)
    usual = _usual_distance(distances)
    evidence = []
    for number in range(1, len(recordings)):
        other = int(distances[number, :number].argmin())
        share = float(distances[number, other]) / max(usual, 1e-12)
        if share < options.duplicate:
            text = f"near-duplicate of {recordings[other].name}"
            evidence.append(
                Evidence("habits", "duplicate", number, 1.0 / max(share, 1e-6), CERTAIN, text, is_fault=False)
            )
    return evidence


def _usual_distance(distances: Matrix) -> float:
    """The median distance of nearest demonstrations, copies left out: where most are copies it would be 0.

    Args:
        distances: (demos, demos), infinite on the diagonal.
    """
    same = distances < COPY * float(np.median(distances[np.isfinite(distances)]))
    distinct = ~np.tril(same).any(axis=1)
    kept = distances[np.ix_(distinct, distinct)]
    return float(np.median(kept.min(axis=1))) if len(kept) > 1 else 0.0


def _signature(recording: Recording) -> Vector:
    """State and actions at sixteen moments, (16 · (D + A),)."""
    values = np.concatenate([recording.state, recording.actions], axis=1).astype(np.float64)
    moments = np.linspace(0, len(values) - 1, 16).round().astype(np.int64)
    return np.asarray(values[moments].reshape(-1))


def _stillness(recordings: list[Recording], fps: float, options: HabitOptions) -> list[Evidence]:
    speeds = [speed(r) if r.state.shape[1] and len(r.state) > 1 else np.zeros(0) for r in recordings]
    moving = np.concatenate(speeds) if speeds else np.zeros(0)
    if not (moving > 0).any():
        return []
    limit = options.still_speed * float(np.median(moving[moving > 0]))
    evidence = []
    for number, motion in enumerate(speeds):
        first, last = longest_run(motion <= limit)
        seconds = (last - first + 1) / fps
        if seconds >= options.still_seconds:
            text = f"stands still for {seconds:.1f} s"
            evidence.append(
                Evidence("habits", "stands still", number, seconds, 1.0, text, (first, last), is_fault=False)
            )
    return evidence


def _saturation(recordings: list[Recording], options: HabitOptions) -> list[Evidence]:
    everything = np.concatenate([recording.actions for recording in recordings])
    low, high = everything.min(axis=0), everything.max(axis=0)
    graded = [d for d in range(everything.shape[1]) if len(np.unique(everything[:, d])) > 4]  # no grippers
    evidence = []
    for number, recording in enumerate(recordings):
        actions = recording.actions[:, graded]
        at_limit = (actions >= high[graded] - 1e-6) | (actions <= low[graded] + 1e-6)
        share = float(at_limit.any(axis=1).mean()) if graded else 0.0
        if share >= options.saturated:
            text = f"actions saturate in {100 * share:.0f}% of the steps"
            evidence.append(Evidence("habits", "saturated", number, share, 1.0, text, is_fault=False))
    return evidence


def _jerk(recordings: list[Recording], fps: float, options: HabitOptions) -> list[Evidence]:
    lengths = np.array([_spectral_arc_length(speed(r), fps) if len(r.state) > 8 else 0.0 for r in recordings])
    if len(lengths) < 8 or not lengths.any():
        return []
    scores = robust_scores(np.log(lengths + 1e-3))
    return [
        Evidence(
            "habits",
            "jerky",
            int(number),
            float(scores[number]),
            1.0,
            f"jerky: spectral arc length {lengths[number] / np.median(lengths):.1f} × usual",
            is_fault=False,
        )
        for number in np.flatnonzero(scores > options.jerky)
    ]


def _spectral_arc_length(speed: Vector, fps: float, cutoff: float = 10.0) -> float:
    """Arc length of the normalised spectrum of a speed profile (Balasubramanian et al., 2012); small is
    smooth.
    """
    if not len(speed) or not speed.any():
        return 0.0
    size = 1 << (int(np.ceil(np.log2(len(speed)))) + 2)
    spectrum = np.abs(np.fft.rfft(speed, size))
    frequency = np.fft.rfftfreq(size, 1 / fps)
    spectrum, frequency = spectrum / spectrum.max(), frequency / max(frequency[-1], 1e-9)
    kept = (np.fft.rfftfreq(size, 1 / fps) <= cutoff) & (np.maximum.accumulate(spectrum[::-1])[::-1] >= 0.05)
    steps, rises = np.diff(frequency[kept]), np.diff(spectrum[kept])
    return float(np.sqrt(steps**2 + rises**2).sum())


def _failures(recordings: list[Recording]) -> list[Evidence]:
    return [
        Evidence("success", "no success", number, 1.0, CERTAIN, "ends without success, as its label says")
        for number, recording in enumerate(recordings)
        if recording.success is False
    ]
