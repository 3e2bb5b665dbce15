"""How strongly one quantity follows another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
PHASES = 20  # bins of the phase of a demonstration


def spearman(first: Values, second: Values) -> float | None:
    """Rank correlation; None for fewer than four pairs or where one side does not vary.

    Args:
        first: (N,); pairs with a number that is not finite are left out.
        second: (N,).
    """
    from scipy.stats import spearmanr

    usable = np.isfinite(first) & np.isfinite(second)
    if usable.sum() < 4 or np.ptp(first[usable]) == 0 or np.ptp(second[usable]) == 0:
        return None
    return float(spearmanr(first[usable], second[usable]).statistic)


def area_under_curve(above: Values, below: Values) -> float | None:
    """Probability that one of ``above`` exceeds one of ``below``, ties counting half; None without either.

    Args:
        above: for example weights of sound demonstrations.
        below: for example weights of corrupted ones.
    """
    if not len(above) or not len(below):
        return None
    larger = (above[:, None] > below[None]).mean() + 0.5 * (above[:, None] == below[None]).mean()
    return float(larger)


def variance_explained(values: Values, groups: NDArray[np.int64]) -> float | None:
    """Between-group share of the variance, η²; None where the values do not vary.

    Args:
        values: (N,).
        groups: number of the group of every value, (N,).
    """
    total = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if total <= 1e-12 * max(len(values), 1):
        return None
    sizes = np.bincount(groups)
    sums = np.bincount(groups, weights=values)
    means = sums[sizes > 0] / sizes[sizes > 0]
    return float((sizes[sizes > 0] * (means - values.mean()) ** 2).sum() / total)


def phase_bins(phase: Values) -> NDArray[np.int64]:
    """The bin of every phase in [0, 1], (N,), of `PHASES`."""
    return np.minimum((phase * PHASES).astype(np.int64), PHASES - 1)
