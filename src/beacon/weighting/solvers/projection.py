"""Euclidean projections onto a box with a fixed sum, and onto the simplex.

The projection of x onto {lower ≤ q ≤ upper, Σq = B} is ``clip(x − ν, lower, upper)`` for the shift ν
at which the sum, which never increases with ν, meets B. Finding ν is all the work.

The paper bisects ν. `find_shift` is exact instead: between two neighbouring *breakpoints* (x − upper,
x − lower) the sum is linear. A random sample of the coordinates tells very nearly where ν is; one pass
sums up every coordinate that has no breakpoint near there; the few others are sampled again, or sorted.
So a long vector is read about twice: once to decide, once to write the result.

Several processes, each with a `Shard` of the coordinates, find the same ν: the sample, a few sums and the
undecided coordinates are all that they exchange.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beacon.weighting.chunks import map_chunks
from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.solvers.breakpoints import SORTABLE, Undecided, clip, gather_vectors
from beacon.weighting.solvers.far_apart import is_close, project_far_apart
from beacon.weighting.validation import Vector, refuse


class BudgetWarning(UserWarning):
    """The budget cannot be met within the bounds; the nearest one that can was used."""


def project_budget(
    x: ArrayLike,
    budget: float,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = math.inf,
    out: Vector | None = None,
) -> Vector:
    """Project ``x`` onto {q : lower ≤ q ≤ upper, Σq = budget}, exactly.

    Args:
        x: the point, shape (N,).
        budget: the sum B. Outside [Σlower, Σupper] it is clamped, with a `BudgetWarning`.
        lower: a number or one number per coordinate.
        upper: likewise; may be infinite.
        out: where to write the result; may be ``x`` itself.

    >>> project_budget([3.0, 1.0, -1.0], budget=2.0)
    array([2., 0., 0.])
    >>> project_budget([3.0, 1.0, -1.0], budget=2.0, lower=0.1, upper=1.5)
    array([1.5, 0.4, 0.1])
    """
    point, lo, hi = _problem(x, lower, upper)
    if out is None or not np.may_share_memory(point, out):
        return project_shifted(point, clamp_budget(budget, lo, hi), lo, hi, out)[0]
    out[...] = project_shifted(point, clamp_budget(budget, lo, hi), lo, hi)[0]
    return out


def project_shifted(
    x: Vector,
    budget: float,
    lower: Vector,
    upper: Vector,
    out: Vector | None = None,
    shard: Shard = WHOLE,
) -> tuple[Vector, float]:
    """The projection ``clip(x − ν, lower, upper)`` and ν, for a budget that is feasible.

    Args:
        x: finite numbers, shape (N,).
        budget: the sum.
        lower: the box, shape (N,).
        upper: the box.
        out: where to write the result; not ``x``.
        shard: whose coordinates these are, where they are not all.
    """
    result = np.empty_like(x) if out is None else out
    with np.errstate(over="ignore", invalid="ignore"):  # then the sum is wrong, and that is noticed
        shift = find_shift(x, budget, lower, upper, shard)
        apply_shift(x, shift, lower, upper, result)
    if not is_close(shard.totals(_total(result))[0], budget):  # rounding has lost the shift
        everywhere, lowest, highest = gather_vectors(shard, x, lower, upper)
        projected, shift = project_far_apart(everywhere, budget, lowest, highest, find_shift)
        first = 0 if shard.is_whole else int(shard.gather_array(np.array([x.size]))[: shard.rank].sum())
        result[...] = projected[first : first + x.size]
    return result, shift


def project_simplex(x: ArrayLike, total: float = 1.0, lower: float = 0.0) -> Vector:
    """Project ``x`` onto {w : w ≥ lower, Σw = total}.

    >>> project_simplex([0.5, 0.9, -0.2])
    array([0.3, 0.7, 0. ])
    """
    return project_budget(x, total, lower)


def project_budget_bisection(
    x: ArrayLike, budget: float, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf, steps: int = 80
) -> Vector:
    """The paper's projection: halve a bracket of ν ``steps`` times. The reference for `project_budget`."""
    point, lo, hi = _problem(x, lower, upper)
    budget = clamp_budget(budget, lo, hi)
    left, right = _leftmost(point, budget, lo, hi) - 1.0, float(np.max(point - lo)) + 1.0
    for _ in range(steps):
        middle = 0.5 * (left + right)
        if clip(point - middle, lo, hi).sum() > budget:
            left = middle
        else:
            right = middle
    return clip(point - 0.5 * (left + right), lo, hi)


def soft_threshold(x: Vector, threshold: Vector | float) -> Vector:
    """What is left of numbers beyond the threshold.

    >>> soft_threshold(np.array([3.0, -1.0, 0.5]), 1.0).tolist()
    [2.0, -0.0, 0.0]
    """
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0))


def clamp_budget(budget: float, lower: Vector, upper: Vector, shard: Shard = WHOLE) -> float:
    """``budget``, or the nearest sum that the bounds allow, with a warning."""
    if not math.isfinite(budget):
        raise ValueError(f"budget: must be a finite number, got {budget}")
    least, most = shard.totals(_total(lower), _total(upper))
    slack = 1e-12 * max(1.0, abs(budget))
    if budget < least - slack or budget > most + slack:
        warnings.warn(
            f"the budget {budget:.6g} is outside what the bounds allow, [{least:.6g}, {most:.6g}]; clamped",
            BudgetWarning,
            stacklevel=3,
        )
    return min(max(budget, least), most)


def find_shift(x: Vector, budget: float, lower: Vector, upper: Vector, shard: Shard = WHOLE) -> float:
    """The ν at which Σ clip(x − ν, lower, upper) = budget; the budget must be feasible.

    >>> find_shift(np.array([3.0, 1.0]), 2.0, np.zeros(2), np.full(2, 5.0))
    1.0
    """
    rest = Undecided(x, lower, upper, shard=shard)
    while rest.size > SORTABLE:
        left, right = rest.suggest_bracket(budget)
        narrower = rest.narrow(left, right)
        if narrower.ends[0] < budget:  # ν is further left than the sample suggested
            narrower = rest.narrow(
                rest.left if math.isfinite(rest.left) else _leftmost(x, budget, lower, upper, shard), left
            )
        elif narrower.ends[1] > budget:
            rightmost = rest.right
            if not math.isfinite(rightmost):
                rightmost = shard.largest(float(np.max(x - lower, initial=-math.inf)))
            narrower = rest.narrow(right, rightmost)
        if 2 * narrower.size > rest.size:  # many breakpoints at one place: sampling cannot part them
            return narrower.solve(budget)
        rest = narrower
    return rest.solve(budget)


def apply_shift(x: Vector, shift: float, lower: Vector, upper: Vector, out: Vector | None = None) -> Vector:
    """``clip(x − shift, lower, upper)``."""
    result = np.empty_like(x) if out is None else out

    def write(part: slice) -> None:
        np.subtract(x[part], shift, out=result[part])
        clip(result[part], lower[part], upper[part], out=result[part])

    map_chunks(write, x.size)
    return result


def _leftmost(x: Vector, budget: float, lower: Vector, upper: Vector, shard: Shard = WHOLE) -> float:
    """A shift at which the sum is at least any feasible budget, also where upper bounds are infinite."""
    top = np.minimum(upper, lower + max(budget - shard.totals(_total(lower))[0], 0.0))
    return shard.smallest(float(np.min(x - top, initial=math.inf)))


def _problem(x: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Vector, Vector, Vector]:
    point = np.asarray(x, dtype=np.float64)
    if point.ndim != 1 or point.size == 0:
        raise ValueError(f"x: expected a vector with at least one entry, got shape {point.shape}")
    lo = _bound("lower", lower, point.size)
    hi = _bound("upper", upper, point.size)
    if not all(map_chunks(lambda s: _is_sound(point[s], lo[s], hi[s]), point.size)):
        _complain(point, lo, hi)
    return point, lo, hi


def _is_sound(x: Vector, lower: Vector, upper: Vector) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):  # of huge numbers, which are looked at one by one then
        return math.isfinite(float(x.sum())) and bool((lower <= upper).all())


def _complain(x: Vector, lower: Vector, upper: Vector) -> None:
    """Name the first entry that is wrong, if there is one (a sum of huge numbers may overflow)."""
    refuse("x", ~np.isfinite(x), x, "is not finite")
    refuse("lower", np.isnan(lower), lower, "is not a number")
    refuse("upper", np.isnan(upper), upper, "is not a number")
    if np.any(lower > upper):
        first = int(np.argmax(lower > upper))
        raise ValueError(f"lower[{first}] = {lower[first]} exceeds upper[{first}] = {upper[first]}")


def _bound(name: str, value: ArrayLike, size: int) -> Vector:
    bound = np.asarray(value, dtype=np.float64)
    if bound.ndim and bound.shape != (size,):
        raise ValueError(f"{name}: expected a number or shape ({size},), got {bound.shape}")
    return np.broadcast_to(bound, (size,))


def _total(values: NDArray[np.float64]) -> float:
    if values.strides == (0,) and values.size:  # one number for all coordinates
        return float(values[0]) * values.size
    return math.fsum(map_chunks(lambda part: float(values[part].sum()), values.size))
