"""Two single policies on the same initial states: is one better?

McNemar's exact test is for a number of states that was fixed beforehand (`sequential` has one that may stop
at any time). It speaks of these two policies, not of their methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from beacon.analysis.methods import compare_methods


def paired_test(first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    """Is the first policy better? McNemar's exact test of successes, a bootstrap of graded outcomes.

    Args:
        first: outcomes of the first policy from 0 to 1, one entry a state. Where all are 0, 1 or half points,
            whole points are successes.
        second: the same of the second policy in the same states.
    """
    if len(first) != len(second):
        raise ValueError("paired outcomes must have one length")
    if {float(value) for value in (*first, *second)} <= {0.0, 0.5, 1.0}:
        test = mcnemar_exact([value >= 1 for value in first], [value >= 1 for value in second])
        return {**test, "is_graded": False}
    result = compare_methods([first], [second])
    return {
        "is_graded": True,
        "only_first": sum(a > b for a, b in zip(first, second, strict=True)),
        "only_second": sum(a < b for a, b in zip(first, second, strict=True)),
        "difference": result.difference,
        "p_value": result.p_value,
    }


def mcnemar_exact(first: Sequence[bool], second: Sequence[bool]) -> dict[str, Any]:
    """McNemar's exact two-sided test on paired outcomes: are the discordant pairs a fair coin?

    Args:
        first: success of the first policy, one entry a state.
        second: success of the second policy in the same states.
    """
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
