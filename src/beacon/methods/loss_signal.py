"""What enters the weights in place of the plain loss: what a window costs beyond what it must."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def phase_baseline(
    losses: Vector, phase: NDArray[np.float32], on_target: NDArray[np.bool_], knots: int = 10
) -> Vector:
    """The target's mean loss at the phase of every window, (N,).

    b(φ) interpolates linearly between knots c_0 .. c_K in [0, 1], at which it is the mean of the target
    losses under triangular weights as wide as the gap between knots:

        b(c_k) = Σ_j max(0, 1 − K|φ_j − c_k|) ℓ_j / Σ_j max(0, 1 − K|φ_j − c_k|)

    The diffusion loss follows the phase of the episode; ℓ_i − b(φ_i) compares a window with target windows
    of the same phase.

    Args:
        losses: ℓ, (N,).
        phase: φ, (N,), 0 at the first step of an episode and 1 at the last.
        on_target: which windows are the target's, (N,).
        knots: K, how many parts the episode is divided into.

    >>> phase = np.array([0.0, 0.5, 1.0, 0.25, 0.75])
    >>> phase_baseline(np.array([1.0, 2.0, 4.0, 9.0, 9.0]), phase, np.arange(5) < 3, knots=2)
    array([1. , 2. , 4. , 1.5, 3. ])
    """
    places = np.asarray(phase, np.float64)
    centres = np.linspace(0, 1, knots + 1)
    nearness = np.maximum(0, 1 - knots * np.abs(places[on_target][:, None] - centres))  # (n, K + 1)
    mass = nearness.sum(axis=0)
    known = mass > 1e-9  # a few short demonstrations may leave a knot without any
    means = (nearness.T @ losses[on_target])[known] / mass[known]
    return np.asarray(np.interp(places, centres[known], means))
