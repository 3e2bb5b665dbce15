"""Facility location: which few points stand best for many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Chosen:
    """One point of a greedy choice."""

    index: int
    gain: float  # how much shorter the sum of distances becomes
    members: tuple[int, ...]  # points that have it as their nearest among all that were chosen and given


def greedy_facilities(
    distances: NDArray[np.float64], uncovered: NDArray[np.float64], count: int
) -> list[Chosen]:
    """Points that shorten the distances of all points to their nearest chosen one, one after the other.

    The objective Σᵢ (uᵢ − min(uᵢ, min_{j in S} dᵢⱼ)) grows with S and is submodular, so the greedy choice has
    at least the share 1 − 1/e of what the best choice of as many points has (Nemhauser, Wolsey and Fisher
    1978, doi:10.1007/BF01588971). It ends early where no point shortens anything.

    Args:
        distances: dᵢⱼ from every point to every candidate, (N, M).
        uncovered: uᵢ, distance of every point to the nearest one that is given already, (N,).
        count: points to choose, at most.
    """
    if distances.ndim != 2 or uncovered.shape != distances.shape[:1]:
        raise ValueError(
            f"distances {distances.shape} and uncovered {uncovered.shape} do not belong together"
        )
    left = np.array(uncovered, np.float64)
    order: list[tuple[int, float]] = []
    for _ in range(min(count, distances.shape[1])):
        gains = np.maximum(left[:, None] - distances, 0).sum(axis=0)  # (M,)
        best = int(gains.argmax())
        if gains[best] <= 1e-12 * max(1.0, float(uncovered.sum())):
            break
        order.append((best, float(gains[best])))
        left = np.minimum(left, distances[:, best])
    # Whom each stands for is known at the end alone: later ones may be nearer.
    nearest = distances[:, [index for index, _ in order]]
    owner = nearest.argmin(axis=1) if order else np.zeros(len(left), np.int64)
    helped = nearest.min(axis=1, initial=np.inf) < uncovered
    return [
        Chosen(index, gain, tuple(np.flatnonzero(helped & (owner == position)).tolist()))
        for position, (index, gain) in enumerate(order)
    ]
