"""Two methods, each trained with several seeds and evaluated from several initial states.

A p-value over pooled rollouts of a few policies speaks of these policies. What a method does with another
training seed is seen only between seeds, so seeds are resampled first, then initial states within each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS = 10_000
BLOCK = 2_000_000  # numbers drawn at a time


@dataclass(frozen=True)
class MethodDifference:
    """First minus second method, with an interval over training seeds and initial states."""

    difference: float  # mean over seeds of the mean over states
    low: float
    high: float
    p_value: float  # two-sided, from the same resamples; never 0
    seeds: int  # with one seed the interval knows nothing of other seeds
    episodes: int  # paired ones, over all seeds


def compare_methods(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> MethodDifference:
    """Paired hierarchical bootstrap of the difference between two methods.

    Every draw takes as many training seeds as there are, with replacement, and for each as many of its
    initial states as it has, with replacement; both methods are taken at the same seeds and states. With
    fewer than about five seeds such intervals are too short: say the number of seeds beside them.

    Args:
        first: outcomes of the first method, one array (states,) a training seed.
        second: outcomes of the second method, with the same seeds and states in the same order.
        level: probability of the percentile interval.
        draws: number of resamples.
        seed: of the resampling.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError("both methods need the same training seeds, at least one")
    paired = [_difference(a, b) for a, b in zip(first, second, strict=True)]
    rng = np.random.default_rng(seed)
    longest = max(map(len, paired))
    lengths = np.array([len(d) for d in paired])
    table = np.zeros((len(paired), longest))  # (seeds, states), filled up with zeros that are never drawn
    for row, d in zip(table, paired, strict=True):
        row[: len(d)] = d
    means = np.empty(draws)
    size = max(1, BLOCK // (len(paired) * longest))
    for start in range(0, draws, size):
        count = min(size, draws - start)
        chosen = rng.integers(len(paired), size=(count, len(paired)))
        means[start : start + count] = _resampled(table, lengths, chosen, rng)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    tail = min((means <= 0).sum(), (means >= 0).sum())
    return MethodDifference(
        difference=float(np.mean([d.mean() for d in paired])),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (int(tail) + 1) / (draws + 1)),
        seeds=len(paired),
        episodes=int(lengths.sum()),
    )


def pairwise_p_values(
    outcomes: Sequence[Sequence[ArrayLike]], *, draws: int = DRAWS, seed: int = 0
) -> NDArray[np.float64]:
    """Two-sided p-values of all pairs of methods, (methods, methods), by the same paired bootstrap.

    All methods are taken at the same resampled seeds and states, so a pair's p-value does not depend on which
    other methods there are.

    Args:
        outcomes: for each method one array (states,) a training seed; seeds and states are the same for all.
        draws: number of resamples.
        seed: of the resampling.
    """
    tables = [[np.asarray(values, np.float64) for values in method] for method in outcomes]
    lengths = np.array([len(values) for values in tables[0]]) if tables else np.zeros(0, np.int64)
    if not len(lengths) or any([len(v) for v in method] != list(lengths) for method in tables):
        raise ValueError("all methods need outcomes of the same training seeds and states")
    rng = np.random.default_rng(seed)
    padded = np.zeros((len(tables), len(lengths), int(lengths.max())))
    for number, method in enumerate(tables):
        for row, values in enumerate(method):
            padded[number, row, : len(values)] = values
    means = np.empty((len(tables), draws))
    size = max(1, BLOCK // (len(lengths) * padded.shape[2]))
    for start in range(0, draws, size):
        count = min(size, draws - start)
        chosen = rng.integers(len(lengths), size=(count, len(lengths)))
        state = rng.bit_generator.state  # every method gets the same states
        for number, table in enumerate(padded):
            rng.bit_generator.state = state
            means[number, start : start + count] = _resampled(table, lengths, chosen, rng)
    difference = means[:, None] - means[None]
    tail = np.minimum((difference <= 0).sum(axis=2), (difference >= 0).sum(axis=2))
    return np.asarray(np.minimum(1.0, 2 * (tail + 1) / (draws + 1)))


def _resampled(
    table: NDArray[np.float64],
    lengths: NDArray[np.int64],
    chosen: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """The mean difference of every draw, (draws,), for the seeds that it chose, (draws, seeds)."""
    sizes = lengths[chosen]  # (draws, seeds)
    uniform = rng.random((*chosen.shape, table.shape[1]))
    states = (uniform * sizes[..., None]).astype(np.int64)
    values = table[chosen[..., None], states]
    counted = np.arange(table.shape[1]) < sizes[..., None]
    return np.asarray(((values * counted).sum(axis=2) / sizes).mean(axis=1))


def _difference(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise ValueError("outcomes of a seed must be one number for each of the same initial states")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("outcomes must be finite")
    return a - b
