"""How windows are drawn. Every draw is a pure function of its arguments, so a resumed run repeats nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def shuffled(members: Indices, start: int, count: int, seed: int) -> Indices:
    """``count`` entries, from place ``start``, of an endless row of shuffled copies of ``members``.

    Every member comes once before any comes twice.

    >>> shuffled(np.arange(3), 0, 6, seed=1).tolist(), shuffled(np.arange(3), 4, 2, seed=1).tolist()
    ([0, 1, 2, 2, 0, 1], [0, 1])
    """
    size = len(members)
    first, last = start // size, (start + count - 1) // size
    copies = [np.random.default_rng([seed, copy]).permutation(members) for copy in range(first, last + 1)]
    offset = start - first * size
    return np.asarray(np.concatenate(copies)[offset : offset + count])


def mixed(first: Indices, second: Indices, share: float, count: int, seed: int, epoch: int) -> Indices:
    """``count`` entries, each from ``first`` with probability ``share``, otherwise from ``second``."""
    rng = np.random.default_rng([seed, epoch])
    from_first = rng.random(count) < share
    return np.where(
        from_first, first[rng.integers(len(first), size=count)], second[rng.integers(len(second), size=count)]
    )


def mixture(groups: list[Indices], shares: NDArray[np.float64], count: int, seed: int, epoch: int) -> Indices:
    """``count`` entries, each from group k with probability ``shares[k]``, uniformly within the group."""
    rng = np.random.default_rng([seed, epoch])
    edges = np.cumsum(shares) / np.sum(shares)
    group = np.searchsorted(edges, rng.random(count), side="right").clip(max=len(groups) - 1)
    place = rng.random(count)
    sizes = np.array([len(members) for members in groups])[group]
    starts = np.cumsum([0, *(len(members) for members in groups)])[group]
    within = np.minimum((place * sizes).astype(np.int64), sizes - 1)
    return np.asarray(np.concatenate(groups)[starts + within])


def proportional(weights: NDArray[np.float64], count: int, seed: int, epoch: int) -> Indices:
    """``count`` indices, index i with probability ∝ weights[i], by systematic sampling, then shuffled.

    Systematic sampling spaces the draws evenly over the cumulated weights: i comes count·p_i times,
    rounded up or down.
    """
    rng = np.random.default_rng([seed, epoch])
    edges = np.cumsum(weights)
    points = (np.arange(count) + rng.random()) * (edges[-1] / count)
    chosen = np.searchsorted(edges, points, side="right").clip(max=len(weights) - 1)
    return np.asarray(rng.permutation(chosen), dtype=np.int64)
