"""Weights of samples, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def effective_sample_size(weights: NDArray[Any]) -> float:
    """(Σq)²/Σq²: with how many equal weights a weighted mean would be as noisy; 0 for weights of zero.

    Args:
        weights: q of every sample, (N,).
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def demo_means(values: Values, episode: NDArray[np.integer[Any]]) -> Values:
    """Mean over each demonstration, (E,); exact where it is the same for all of its windows.

    Demonstrations of one weight must not be ranked by how their sums were rounded.

    Args:
        values: one number a window, (N,).
        episode: number of the demonstration of every window, (N,); 0 to E − 1, each at least once.
    """
    _, first_window = np.unique(episode, return_index=True)
    first = values[first_window]
    beyond = np.bincount(episode, weights=values - first[episode])
    return np.asarray(first + beyond / np.bincount(episode))
