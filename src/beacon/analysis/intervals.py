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


def newcombe(first: float, first_trials: int, second: float, second_trials: int) -> tuple[float, float]:
    """Newcombe's 95% interval of the difference of two independent proportions, from Wilson's intervals.

    >>> low, high = newcombe(56, 70, 48, 80)  # the example of Newcombe (1998), table II
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)

    Args:
        first: successes of the first.
        first_trials: its trials.
        second: successes of the second, which is subtracted.
        second_trials: its trials.
    """
    (low_1, high_1), (low_2, high_2) = wilson(first, first_trials), wilson(second, second_trials)
    share_1, share_2 = first / first_trials, second / second_trials
    difference = share_1 - share_2
    return (
        difference - math.hypot(share_1 - low_1, high_2 - share_2),
        difference + math.hypot(high_1 - share_1, share_2 - low_2),
    )
