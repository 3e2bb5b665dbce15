"""Projections of numbers so large, or so far apart, that rounding loses the shift.

``clip(x − ν, lower, upper)`` needs x − ν to far less than the width of the box. At x of 10¹² and a width of
one, ν is known to 10⁻⁴; at 10²⁰, not at all. But only differences up to the width matter: of two numbers that
are farther apart the larger is at its upper bound before the smaller leaves its lower one. So the gaps of the
sorted numbers are shortened to the width, which changes nothing, and the shift is found near zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beacon.weighting.validation import Vector

CLOSE = 1e-10  # relative error of the sum that needs no mending
ROUNDS = 100  # of handing out what is left of the budget; a few are enough

FindShift = Callable[[Vector, float, Vector, Vector], float]


def is_close(total: float, budget: float) -> bool:
    """Whether a sum meets its budget; no for NaN."""
    return abs(total - budget) <= CLOSE * max(1.0, abs(budget))


def project_far_apart(
    x: Vector, budget: float, lower: Vector, upper: Vector, find_shift: FindShift
) -> tuple[Vector, float]:
    """The projection onto {lower ≤ q ≤ upper, Σq = budget}, and ν as nearly as a float can say it.

    Args:
        x: finite numbers.
        budget: feasible.
        lower: the box.
        upper: the box; may be infinite.
        find_shift: finds ν of numbers that are near each other.
    """
    highest = np.minimum(upper, lower + max(budget - float(lower.sum()), 0.0))  # nothing can be beyond
    width = float(highest.max() - lower.min())
    order = np.argsort(x, kind="stable")
    with np.errstate(over="ignore"):  # an infinite gap is shortened, too
        gaps = np.minimum(np.diff(x[order]), width)
    low, high = lower[order], highest[order]
    near = np.concatenate([[0.0], np.cumsum(gaps)])
    shift = find_shift(near, budget, low, high)
    # Sums of gaps from the number at the shift outwards: exact there, and beyond all are at their bounds.
    pivot = min(int(np.searchsorted(near, shift)), x.size - 1)
    left, right = -np.cumsum(gaps[:pivot][::-1])[::-1], np.cumsum(gaps[pivot:])
    near = np.concatenate([left, [0.0], right])
    shift = find_shift(near, budget, low, high)
    q = np.empty_like(x)
    q[order] = np.clip(near - shift, low, high)
    with np.errstate(over="ignore"):
        moved = float(np.clip(x[order[pivot]] + shift, -1e308, 1e308))
    return restore_budget(q, budget, lower, upper), moved


def restore_budget(q: Vector, budget: float, lower: Vector, upper: Vector) -> Vector:
    """Weights within the bounds that sum to the budget, changed alike where they have room.

    Args:
        q: nearly right; returned as it is where its sum is right.
        budget: feasible.
        lower: the box.
        upper: the box.
    """
    q = np.clip(q, lower, upper)
    for _ in range(ROUNDS):
        missing = budget - float(q.sum())
        if abs(missing) <= 1e-15 * max(1.0, abs(budget)):
            break
        room = q < upper if missing > 0 else q > lower
        free = room & (q > lower) & (q < upper)  # those that the shift moves, where there are any
        members = free if free.any() else room
        if not members.any():
            break
        q[members] = np.clip(q[members] + missing / np.count_nonzero(members), lower[members], upper[members])
    return q
