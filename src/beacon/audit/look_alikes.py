"""Do demonstrations that look alike act alike? Wrong goals and objects show where nothing else does.

Every window's action chunk is compared with those of the most similar windows of other demonstrations. How
much they differ is compared with what is common at the same part of an episode *and at the same distance of
the neighbours*: a demonstration at the edge of what the set covers has far neighbours, and differs for that
reason alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.audit.evidence import Evidence, Vector, evidence_from_scores
from beacon.audit.recordings import Recording

CHECK = "look-alikes"


@dataclass(frozen=True)
class LookAlikeOptions:
    """Options of the check by look-alikes."""

    # Neighbours of a window, each of another demonstration.
    k: int = 10
    # Steps of an action chunk.
    horizon: int = 8
    # Every so many steps a window is looked at.
    stride: int = 2
    # Principal components of coarse pictures, and what a standard deviation of the state counts beside them.
    components: int = 32
    state_weight: float = 0.5
    # Parts of an episode, and classes of distance, that are compared with each other.
    phases: int = 8
    distances: int = 5
    # Robust standard deviations above the median from which on something is said.
    least_score: float = 2.0


def check_look_alikes(
    recordings: list[Recording], target: list[Recording], options: LookAlikeOptions
) -> tuple[Vector, list[Evidence], str | None]:
    """Scores in robust standard deviations, (demos,), evidence, and a remark about the set.

    Args:
        recordings: of the set; most of it must be sound.
        target: of the target; its demonstrations are neighbours, too.
        options: of the check.
    """
    nothing = np.zeros(len(recordings))
    if len(recordings) < 8:
        return nothing, [], f"{len(recordings)} demonstrations are too few to compare look-alikes"
    everyone = [*recordings, *target]
    features, chunks, demo, phase = _windows(everyone, options)
    of_set = demo < len(recordings)
    distance, difference = _compare(features, chunks, demo, of_set, options)
    expected = _expected(difference, phase[of_set], distance, options)
    excess = np.log(difference + 1e-9) - np.log(expected + 1e-9)
    counts = np.bincount(demo[of_set], minlength=len(recordings))
    statistic = np.bincount(demo[of_set], excess, len(recordings)) / np.maximum(counts, 1)
    scores = robust_scores(statistic)

    def words(number: int) -> str:
        return (
            "moves otherwise than demonstrations that look alike "
            f"(differs {np.exp(statistic[number] - np.median(statistic)):.1f} × as much as is usual)"
        )

    evidence = evidence_from_scores(CHECK, "another goal", scores, options.least_score, words)
    return scores, evidence, None


def robust_scores(values: Vector) -> Vector:
    """Distance above the median in standard deviations of the lower half, which outliers do not move."""
    median = float(np.median(values))
    below = median - values[values <= median]
    spread = 1.4826 * float(np.median(below)) + 1e-9 if len(below) else 1.0
    return np.asarray((values - median) / max(spread, float(np.sqrt(np.mean(below**2))), 1e-9))


def _windows(
    recordings: list[Recording], options: LookAlikeOptions
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Features (N, F), action chunks (N, C), demonstration and phase of every window."""
    pictures, states, chunks, demo, phase = [], [], [], [], []
    scale = np.concatenate([r.actions for r in recordings]).std(axis=0) + 1e-6
    for number, recording in enumerate(recordings):
        length = len(recording.actions)
        steps = np.arange(0, length, options.stride)
        ahead = np.minimum(steps[:, None] + np.arange(options.horizon), length - 1)
        chunks.append((recording.actions / scale)[ahead].reshape(len(steps), -1))
        pictures.append(recording.pictures[steps])
        states.append(recording.state[steps])
        demo.append(np.full(len(steps), number))
        phase.append(steps * options.phases // max(length, 1))
    parts = []
    if pictures[0].shape[1]:
        parts.append(_components(np.concatenate(pictures), options.components))
    if states[0].shape[1]:
        state = np.concatenate(states)
        parts.append(options.state_weight * (state - state.mean(axis=0)) / (state.std(axis=0) + 1e-6))
    features = np.concatenate(parts, axis=1).astype(np.float32)
    return features, np.concatenate(chunks).astype(np.float32), np.concatenate(demo), np.concatenate(phase)


def _components(pictures: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    centred = (pictures - pictures.mean(axis=0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    kept = centred @ vectors[:, -count:]
    return np.asarray(kept / max(float(kept.std()), 1e-12))


def _compare(
    features: NDArray[np.float32],
    chunks: NDArray[np.float32],
    demo: NDArray[np.int64],
    of_set: NDArray[np.bool_],
    options: LookAlikeOptions,
) -> tuple[Vector, Vector]:
    """Mean distance of the neighbours, and mean squared difference from their mean chunk, (n,) each."""
    import torch

    from beacon.weighting.discrepancy.neighbors import nearest

    points = torch.from_numpy(features)
    neighbors = nearest(points[torch.from_numpy(of_set)], points, options.k, demo[of_set], demo)
    known = torch.isfinite(neighbors.distances)
    votes = known.float().unsqueeze(-1)
    answers = torch.from_numpy(chunks)
    own = answers[torch.from_numpy(of_set)]
    mean = (answers[neighbors.indices] * votes).sum(dim=1) / votes.sum(dim=1).clamp_min(1)
    difference = (own - mean).square().mean(dim=1).double().numpy()
    return neighbors.mean_distance(), difference


def _expected(
    difference: Vector, phase: NDArray[np.int64], distance: Vector, options: LookAlikeOptions
) -> Vector:
    """The median difference of windows of the same phase and class of distance, (n,)."""
    expected = np.empty_like(difference)
    for part in np.unique(phase):
        rows = np.flatnonzero(phase == part)
        edges = np.quantile(distance[rows], np.linspace(0, 1, options.distances + 1)[1:-1])
        classes = np.searchsorted(edges, distance[rows])
        for one_class in np.unique(classes):
            chosen = rows[classes == one_class]
            expected[chosen] = np.median(difference[chosen])
    return expected
