"""How far a set is from the target: one number for the look, two for what each covers of the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.audit.recordings import Recording
from beacon.audit.regression import principal_components

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SetDistance:
    """Numbers about a set and the target; None where there are too few demonstrations to tell.

    Args:
        auc: area under the curve of a cross-fitted classifier that tells the set's pictures and states from
            the target's: 0.5 cannot, 1 always can.
        target_covered: share of target demonstrations with one of the set nearby, by where the robot goes.
        set_covered: share of the set's demonstrations with one of the target nearby.
    """

    auc: float | None
    target_covered: float | None
    set_covered: float | None


def measure_distance(recordings: list[Recording], target: list[Recording]) -> SetDistance:
    """Compare a set with the target.

    Nearby is as near as the set's own demonstrations are to each other: up to the 90% quantile of the
    distance to the nearest other one.

    Args:
        recordings: of the set.
        target: of the target.
    """
    if len(recordings) < 5 or len(target) < 3:
        return SetDistance(None, None, None)
    return SetDistance(_auc(recordings, target), *_coverage(recordings, target))


def _auc(recordings: list[Recording], target: list[Recording]) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold

    rows, truth, demo = [], [], []
    for number, recording in enumerate([*recordings, *target]):
        steps = np.linspace(0, len(recording.actions) - 1, 8).astype(np.int64)
        rows.append(np.concatenate([recording.pictures[steps], recording.state[steps]], axis=1))
        truth.append(np.full(len(steps), number >= len(recordings)))
        demo.append(np.full(len(steps), number))
    features = np.concatenate(rows).astype(np.float64)
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    features = principal_components(features, min(24, features.shape[1]))
    labels, groups = np.concatenate(truth), np.concatenate(demo)
    scores = np.zeros(len(labels))
    for train, test in StratifiedGroupKFold(3).split(features, labels, groups):
        model = LogisticRegression(C=1.0, max_iter=200, class_weight="balanced")
        scores[test] = model.fit(features[train], labels[train]).decision_function(features[test])
    return float(roc_auc_score(labels, scores))


def _coverage(recordings: list[Recording], target: list[Recording]) -> tuple[float | None, float | None]:
    if not recordings[0].state.shape[1]:
        return None, None
    ways = np.stack([way(recording) for recording in [*recordings, *target]])
    ways = (ways - ways.mean(axis=0)) / (ways.std(axis=0) + 1e-6)
    return covered_shares(ways[: len(recordings)], ways[len(recordings) :])


def covered_shares(own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Shares of the other set's points with one of the own nearby, and of the own with one of the other.

    Nearby is up to the 90% quantile of the distance from an own point to the nearest other own one.

    Args:
        own: a point for every demonstration of the set, (N, F); at least two.
        other: the same of the other set, (M, F).
    """
    within = distances(own, own)
    np.fill_diagonal(within, np.inf)
    near = float(np.quantile(within.min(axis=1), 0.9))
    between = distances(own, other)
    return float((between.min(axis=0) <= near).mean()), float((between.min(axis=1) <= near).mean())


def way(recording: Recording) -> NDArray[np.float64]:
    """Where the robot is at some moments of the demonstration, (moments · D,)."""
    steps = np.round(np.array(MOMENTS) * (len(recording.state) - 1)).astype(np.int64)
    return np.asarray(recording.state[steps].astype(np.float64).reshape(-1))


def distances(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances of all points of two sets, (N, M)."""
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))
