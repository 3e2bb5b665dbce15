"""Intervals and tests for success counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def wilson(successes: float, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's score interval for a proportion, 95% by default; half points count as they are."""
    if trials <= 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low, high = (centre - spread) / scale, (centre + spread) / scale
    # Exact at the ends, where rounding would say 0.9999999999999999.
    return (0.0 if share == 0 else max(0.0, low)), (1.0 if share == 1 else min(1.0, high))


def mcnemar_exact(first: Sequence[bool], second: Sequence[bool]) -> dict[str, Any]:
    """McNemar's exact two-sided test on paired outcomes: are the discordant pairs a fair coin?"""
    if len(first) != len(second):
        raise ValueError("paired outcomes must have one length")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    discordant = only_first + only_second
    tail = sum(math.comb(discordant, k) for k in range(min(only_first, only_second) + 1))
    return {
        "only_first": only_first,
        "only_second": only_second,
        "difference": (only_first - only_second) / max(len(first), 1),
        "p_value": min(1.0, 2 * tail / 2**discordant),
    }
