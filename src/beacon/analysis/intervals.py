"""Intervals of proportions."""

from __future__ import annotations

import math


def wilson(successes: float, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's score interval for a proportion; half points count as they are.

    Args:
        successes: how many trials succeeded.
        trials: how many there were.
        z: quantile of the normal distribution; 95% by default.
    """
    if trials <= 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low, high = (centre - spread) / scale, (centre + spread) / scale
    # Exact at the ends, where rounding would say 0.9999999999999999.
    return (0.0 if share == 0 else max(0.0, low)), (1.0 if share == 1 else min(1.0, high))
