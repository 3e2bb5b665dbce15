"""The full-convex update: the exact minimiser of the objective over all weights (paper, appendix C).

For a fixed cap t on the weights and a multiplier ν of the budget, every weight has a closed form,

    q_i(t, ν) = clip(p0_i + soft((ν − c_i)/(2 λ2) − p0_i, λ1/(2 λ2)), lower_i, min(t, upper_i)),

with costs c = ℓ + λ_d d and soft the soft threshold. Because soft(z − p, κ) + p, clipped to [l, h], is
``clip(z + κ, l, m) + clip(z − κ, m, h) − m`` with m = clip(p, l, h), finding ν is a projection onto a
box with a fixed sum again, of twice as many numbers, and `find_shift` solves it exactly.

Over t, the objective inner(t) + γ R(θ) t is convex. The paper searches it by thirds; its slope is known,
so that halving is enough and needs a quarter of the solves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from beacon.weighting.chunks import CHUNK
from beacon.weighting.objective import sign
from beacon.weighting.problem import WeightProblem, Weights
from beacon.weighting.solvers.base import SOLVERS, Solver
from beacon.weighting.solvers.breakpoints import clip
from beacon.weighting.solvers.projection import clamp_budget, find_shift, project_shifted
from beacon.weighting.validation import Mask, Vector

TOLERANCE = 1e-9  # of the cap t


@SOLVERS.register("minimiser")
@dataclass(frozen=True)
class Minimiser(Solver):
    """The exact minimiser at every refresh, whatever the weights were before. It needs λ2 above 0.

    At the paper's λ2 of 0.01 it gives the target all that q_max allows and most of the source nothing; take
    λ2 of about 0.1 unless that is what you want. It trusts costs more than steps do: with noisy costs of one
    draw, average them first (`loss_ema`, or a weight per demonstration).
    """

    # Divide the costs by their maximum when it exceeds 1.
    normalize_cost: bool = False

    is_exact: ClassVar[bool] = True
    shards: ClassVar[bool] = True

    def solve(self, problem: WeightProblem, now: Weights, refresh: int, planned: int) -> Weights:
        """The minimiser of one refresh."""
        from beacon.weighting.solvers.multisource_minimiser import minimise_several

        largest = problem.shard.largest(float(problem.costs.max(initial=-math.inf)))
        if self.normalize_cost and largest > 1.0:
            problem = replace(problem, costs=problem.costs / largest)
        if problem.source is not None:
            return minimise_several(problem)
        solution = minimise(problem)
        return Weights(solution.q, now.w, now.q_tilde, solution.multiplier)

    def require(self, lambda_2: float) -> None:
        """λ2 must be above 0: the minimiser would not be unique."""
        if not lambda_2 > 0:
            raise ValueError(f"lambda_2: must be above 0 for the minimiser, got {lambda_2!r}")


@dataclass(frozen=True)
class ConvexSolution:
    """The minimiser q, its cap t and the budget's multiplier ν."""

    q: Vector
    cap: float
    multiplier: float


def minimise(problem: WeightProblem, *, search: Literal["slope", "ternary"] = "slope") -> ConvexSolution:
    """Minimise Σ q c + γ‖q‖_∞ R(θ) + λ1‖q − p0‖₁ + λ2‖q‖₂² over lower ≤ q ≤ upper, Σq = budget.

    Args:
        problem: its domains are not looked at; λ2 must be positive.
        search: how the cap is found: by the slope of the objective, or by thirds as in the paper.
    """
    strengths, lower, upper, shard = problem.strengths, problem.lower, problem.upper, problem.shard
    if strengths.lambda_2 <= 0:
        raise ValueError(f"lambda_2: the minimiser needs it above 0, got {strengths.lambda_2}")
    bounded = _BoundedProblem(replace(problem, budget=clamp_budget(problem.budget, lower, upper, shard)))
    price = strengths.gamma * problem.capacity
    highest = shard.largest(float(upper.max(initial=-math.inf)))
    if price == 0.0:  # a cap costs nothing, so the largest is best
        return bounded.solve(highest)
    lowest = max(shard.largest(float(lower.max(initial=-math.inf))), bounded.lowest_cap())
    if search == "slope":
        cap = _halve(lambda t: bounded.slope(bounded.solve(t)) + price, lowest, highest)
    else:
        cap = _thirds(lambda t: bounded.value(bounded.solve(t).q) + price * t, lowest, highest)
    return bounded.solve(cap)


@dataclass(frozen=True)
class _BoundedProblem:
    """The problem with a given cap on all weights."""

    problem: WeightProblem

    def solve(self, cap: float) -> ConvexSolution:
        """The best weights that do not exceed ``cap``."""
        double = 2.0 * self.problem.strengths.lambda_2
        with np.errstate(over="ignore"):
            free = -self.problem.costs / double  # the unconstrained minimiser at ν = 0 and λ1 = 0
        threshold, shard = self.problem.strengths.lambda_1 / double, self.problem.shard
        if shard.largest(float(not np.isfinite(free).all())):
            most = np.abs(self.problem.costs).max(initial=0)
            raise ValueError(
                f"losses: costs of up to {most:.3g} overflow beside lambda_2 = "
                f"{self.problem.strengths.lambda_2:.3g}; divide them (loss_scale=...)"
            )
        upper = self.problem.upper
        if upper.max(initial=-math.inf) > cap:
            upper = np.minimum(upper, cap)
        if threshold == 0.0:
            budget, lower = self.problem.budget, self.problem.lower
            q, shift = project_shifted(free, budget, lower, upper, shard=shard)
            return ConvexSolution(q, cap, -double * shift)
        middle = clip(self.problem.p0, self.problem.lower, upper)
        # Halves of no width are constant (with p0 = 0 that is the lower half of every source sample).
        below, above = middle > self.problem.lower, upper > middle
        split = np.count_nonzero(below)
        points = _join(free, below, free, above)
        del free  # of millions of samples, everything that is kept counts
        points[:split] += threshold
        points[split:] -= threshold
        lows = _join(self.problem.lower, below, middle, above)
        highs = _join(middle, below, upper, above)
        del middle
        if shard.totals(points.size)[0] == 0:  # lower, p0 and upper leave no choice
            return ConvexSolution(self.problem.lower.copy(), cap, 0.0)
        # Σq = Σ lower + Σ (lower half − its low end) + Σ (upper half − its low end)
        lowest, least, most = shard.totals(
            float(self.problem.lower.sum()), float(lows.sum()), float(highs.sum())
        )
        budget = min(max(self.problem.budget - lowest + least, least), most)
        parts, shift = project_shifted(points, budget, lows, highs, shard=shard)
        del points, highs
        parts -= lows
        del lows
        q = self.problem.lower.copy()
        _add(q, below, parts[:split])
        _add(q, above, parts[split:])
        return ConvexSolution(clip(q, self.problem.lower, upper, out=q), cap, -double * shift)

    def value(self, q: Vector) -> float:
        """The objective without the capacity term."""
        s = self.problem.strengths
        return float(
            q @ self.problem.costs + s.lambda_1 * np.abs(q - self.problem.p0).sum() + s.lambda_2 * (q @ q)
        )

    def slope(self, solution: ConvexSolution) -> float:
        """How the best value changes with the cap: what the capped weights would gain, never positive."""
        cap, s = solution.cap, self.problem.strengths
        gain = (
            self.problem.costs
            + s.lambda_1 * sign(cap - self.problem.p0)
            + 2.0 * s.lambda_2 * cap
            - solution.multiplier
        )
        own = float(np.minimum(gain, 0.0)[self.problem.upper > cap].sum())
        return self.problem.shard.totals(own)[0]

    def lowest_cap(self) -> float:
        """The smallest cap under which the budget can be met: Σ min(t, upper) = budget."""
        upper, shard = self.problem.upper, self.problem.shard
        smallest = shard.smallest(float(upper.min(initial=math.inf)))
        if smallest == shard.largest(float(upper.max(initial=-math.inf))):
            return self.problem.budget / shard.totals(upper.size)[0]
        zeros = np.zeros_like(upper)
        return -find_shift(zeros, self.problem.budget, np.minimum(zeros, upper), upper, shard)


def _join(first: Vector, rows: Mask, second: Vector, more: Mask) -> Vector:
    """``concatenate([first[rows], second[more]])`` without copies of the whole in between."""
    joined = np.empty(np.count_nonzero(rows) + np.count_nonzero(more))
    done = 0
    for values, chosen in ((first, rows), (second, more)):
        for start in range(0, values.size, CHUNK):
            part = values[start : start + CHUNK][chosen[start : start + CHUNK]]
            joined[done : done + part.size] = part
            done += part.size
    return joined


def _add(values: Vector, chosen: Mask, more: Vector) -> None:
    """``values[chosen] += more`` without a list of all that are chosen."""
    done = 0
    for start in range(0, values.size, CHUNK):
        rows = np.flatnonzero(chosen[start : start + CHUNK]) + start
        values[rows] += more[done : done + rows.size]
        done += rows.size


def _halve(slope: Callable[[float], float], low: float, high: float) -> float:
    """Where a non-decreasing slope changes sign."""
    while high - low > TOLERANCE:
        middle = 0.5 * (low + high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
    return high


def _thirds(value: Callable[[float], float], low: float, high: float) -> float:
    """The minimiser of a convex function, by ternary search."""
    while high - low > TOLERANCE:
        third = (high - low) / 3.0
        if value(low + third) <= value(high - third):
            high -= third
        else:
            low += third
    return 0.5 * (low + high)
