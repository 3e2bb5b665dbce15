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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beacon.weighting.chunks import map_chunks
from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.solvers.far_apart import is_close, project_far_apart
from beacon.weighting.validation import Vector, refuse

SORTABLE = 4096  # coordinates that are sorted; of more than these, as many are sampled
MARGIN = 5.0  # half-width of the suggested bracket in standard errors of the sample


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
        everything = [shard.gather_array(array) for array in (x, lower, upper)]
        projected, shift = project_far_apart(everything[0], budget, *everything[1:], find_shift)
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
    rest = _Undecided(x, lower, upper, shard=shard)
    while rest.size > SORTABLE:
        left, right = rest.suggest_bracket(budget)
        narrower = rest.narrow(left, right)
        if narrower.total(left) < budget:  # ν is further left than the sample suggested
            narrower = rest.narrow(
                rest.left if math.isfinite(rest.left) else _leftmost(x, budget, lower, upper, shard), left
            )
        elif narrower.total(right) > budget:
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


def clip(x: Vector, lower: Vector | float, upper: Vector | float, out: Vector | None = None) -> Vector:
    """``np.clip`` for bounds in order and no NaN, a good deal faster: both halves are vector instructions."""
    return np.asarray(np.minimum(np.maximum(x, lower, out=out), upper, out=out))


@dataclass(frozen=True)
class _Undecided:
    """The sum for ν in [left, right], as ``base − slope·(ν − left) + Σ clip(x − ν, lower, upper)``.

    ``x`` holds the coordinates with a breakpoint inside the bracket; the others are in base and slope.
    """

    x: Vector
    lower: Vector
    upper: Vector
    base: float = 0.0
    slope: float = 0.0  # how many decided coordinates move with ν
    left: float = -math.inf
    right: float = math.inf
    shard: Shard = WHOLE

    @cached_property
    def size(self) -> int:
        """How many coordinates are undecided, in all processes."""
        return int(self.shard.totals(self.x.size)[0])

    def total(self, shift: float) -> float:
        """The sum at ``shift``."""
        undecided = float(clip(self.x - shift, self.lower, self.upper).sum())
        return self._decided(shift) + self.shard.totals(undecided)[0]

    def _decided(self, shift: float) -> float:
        return self.base - self.slope * (shift - self.left) if self.slope else self.base

    def narrow(self, left: float, right: float) -> _Undecided:
        """The same function in a smaller bracket, in one pass over what was undecided."""
        parts = map_chunks(lambda part: self._decide(part, left, right), self.x.size)
        keep = np.concatenate([np.empty(0, np.int64), *(kept for kept, _, _ in parts)])
        decided, free = self.shard.totals(
            math.fsum(decided for _, decided, _ in parts), sum(free for _, _, free in parts)
        )
        base, slope = self._decided(left) + decided, self.slope + free
        x, lower, upper = self.x[keep], self.lower[keep], self.upper[keep]
        return _Undecided(x, lower, upper, base, slope, left, right, self.shard)

    def _decide(self, part: slice, left: float, right: float) -> tuple[NDArray[np.int64], float, int]:
        """What stays undecided; the sum of the others at ``left``; how many of them move with ν."""
        x, lower, upper = self.x[part], self.lower[part], self.upper[part]
        top, bottom = x - upper, x - lower  # at the upper bound up to top, at the lower one from bottom on
        held, released = top > left, bottom < right
        inside = held & (top < right)
        inside |= released & (bottom > left)
        keep = np.flatnonzero(inside)
        held |= released
        value = clip(np.subtract(x, left, out=top), lower, upper, out=top)
        decided = float(value.sum()) - float(value[keep].sum())
        return keep + part.start, decided, x.size - int(np.count_nonzero(held))

    def suggest_bracket(self, budget: float) -> tuple[float, float]:
        """A bracket that very likely holds ν, from a sample of the coordinates (the same one every time)."""
        size, own = self.size, self.x.size
        count = SORTABLE if size < 256 * SORTABLE else 8 * SORTABLE  # sorting must stay cheap beside a pass
        # Of every process as many as it has of all; one that has nothing draws nothing.
        chosen = np.random.default_rng(0).integers(max(own, 1), size=-(-count * own // size))
        x, lower, upper = (self.shard.gather_array(v[chosen]) for v in (self.x, self.lower, self.upper))
        count = x.size
        share = count / size
        sample = _Undecided(x, lower, upper, self.base * share, self.slope * share, self.left, self.right)
        shift = min(max(sample.solve(budget * share), self.left), self.right)
        y = clip(x - shift, lower, upper)
        moving = self.slope + size * max(float(np.mean((y > lower) & (y < upper))), 1.0 / count)
        half = MARGIN * size * float(y.std()) / math.sqrt(count) / moving
        half = max(half, 1e-9 * max(1.0, abs(shift)))
        return max(shift - half, self.left), min(shift + half, self.right)

    def solve(self, budget: float) -> float:
        """Sort the breakpoints, sum the linear pieces from the right, solve the one that meets the budget.

        A sample's budget may be out of reach; the nearest end is returned then.
        """
        if not self.shard.is_whole:
            x, lower, upper = (self.shard.gather_array(v) for v in (self.x, self.lower, self.upper))
            return replace(self, x=x, lower=lower, upper=upper, shard=WHOLE).solve(budget)
        tops, bottoms = self.x - self.upper, self.x - self.lower
        tops = tops[np.isfinite(tops)]
        points = np.concatenate([tops, bottoms])
        if points.size == 0:
            return self._solve_linear(self.left, self.base, self.slope, budget)
        order = np.argsort(points, kind="stable")
        points = points[order]
        # slopes[j]: how many coordinates move between points[j - 1] and points[j]; the last is beyond all.
        change = np.where(order < tops.size, -1.0, 1.0)  # moving left over a bottom frees, over a top holds
        slopes = np.append(self.slope + np.cumsum(change[::-1])[::-1], self.slope)
        last = self.total(float(points[-1]))
        totals = last + np.append(np.cumsum((np.diff(points) * slopes[1:-1])[::-1])[::-1], 0.0)
        # The first breakpoint, from the left, at which the sum is no longer above the budget.
        piece = int(np.searchsorted(-totals, -budget))
        if piece == points.size:
            return self._solve_linear(float(points[-1]), float(totals[-1]), float(slopes[-1]), budget)
        shift = self._solve_linear(float(points[piece]), float(totals[piece]), float(slopes[piece]), budget)
        # The running sums are rounded many times over; one step with the sum itself makes up for it.
        return self._solve_linear(shift, self.total(shift), float(slopes[piece]), budget)

    @staticmethod
    def _solve_linear(shift: float, total: float, slope: float, budget: float) -> float:
        return shift + (total - budget) / slope if slope > 0 else shift


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
