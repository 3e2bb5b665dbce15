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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from beacon.weighting.checks import Vector
from beacon.weighting.objective import Strengths, sign
from beacon.weighting.projection import clamp_budget, clip, find_shift

TOLERANCE = 1e-9  # of the cap t


@dataclass(frozen=True)
class ConvexSolution:
    """The minimiser q, its cap t and the budget's multiplier ν."""

    q: Vector
    cap: float
    multiplier: float


def convex_update(
    costs: Vector,
    p0: Vector,
    lower: Vector,
    upper: Vector,
    budget: float,
    strengths: Strengths,
    *,
    capacity: float = 0.0,
    search: Literal["slope", "ternary"] = "slope",
) -> ConvexSolution:
    """Minimise Σ q c + γ‖q‖_∞ R(θ) + λ1‖q − p0‖₁ + λ2‖q‖₂² over lower ≤ q ≤ upper, Σq = budget.

    Args:
        costs: ℓ + λ_d d, shape (N,).
        p0: reference weights, shape (N,).
        lower: smallest weights, shape (N,); the target floor belongs here.
        upper: largest weights, shape (N,).
        budget: what the weights sum to; clamped with a warning when it cannot be met.
        strengths: the coefficients; λ2 must be positive.
        capacity: R(θ) = ½‖θ‖².
        search: how the cap is found: by the slope of the objective, or by thirds as in the paper.
    """
    if strengths.lambda_2 <= 0:
        raise ValueError(f"lambda_2: the convex update needs it above 0, got {strengths.lambda_2}")
    budget = clamp_budget(budget, lower, upper)
    problem = _Problem(costs, p0, lower, upper, budget, strengths)
    price = strengths.gamma * capacity
    highest = float(upper.max())
    if price == 0.0:  # a cap costs nothing, so the largest is best
        return problem.solve(highest)
    lowest = max(float(lower.max()), problem.lowest_cap())
    if search == "slope":
        cap = _halve(lambda t: problem.slope(problem.solve(t)) + price, lowest, highest)
    else:
        cap = _thirds(lambda t: problem.value(problem.solve(t).q) + price * t, lowest, highest)
    return problem.solve(cap)


@dataclass(frozen=True)
class _Problem:
    costs: Vector
    p0: Vector
    lower: Vector
    upper: Vector
    budget: float
    strengths: Strengths

    def solve(self, cap: float) -> ConvexSolution:
        """The best weights that do not exceed ``cap``."""
        double = 2.0 * self.strengths.lambda_2
        free = -self.costs / double  # the unconstrained minimiser at ν = 0 and λ1 = 0
        threshold = self.strengths.lambda_1 / double
        upper = np.minimum(self.upper, cap)
        if threshold == 0.0:
            shift = find_shift(free, self.budget, self.lower, upper)
            return ConvexSolution(clip(free - shift, self.lower, upper), cap, -double * shift)
        middle = clip(self.p0, self.lower, upper)
        # Halves of no width are constant (with p0 = 0 that is the lower half of every source sample).
        below = np.flatnonzero(middle > self.lower)
        above = np.flatnonzero(upper > middle)
        points = np.concatenate([free[below] + threshold, free[above] - threshold])
        lows = np.concatenate([self.lower[below], middle[above]])
        highs = np.concatenate([middle[below], upper[above]])
        q = self.lower.copy()
        if points.size == 0:  # lower, p0 and upper leave no choice
            return ConvexSolution(q, cap, 0.0)
        # Σq = Σ lower + Σ (lower half − its low end) + Σ (upper half − its low end)
        budget = self.budget - float(self.lower.sum()) + float(lows.sum())
        shift = find_shift(points, min(max(budget, float(lows.sum())), float(highs.sum())), lows, highs)
        parts = clip(points - shift, lows, highs) - lows
        q[below] += parts[: below.size]
        q[above] += parts[below.size :]
        return ConvexSolution(clip(q, self.lower, upper), cap, -double * shift)

    def value(self, q: Vector) -> float:
        """The objective without the capacity term."""
        s = self.strengths
        return float(q @ self.costs + s.lambda_1 * np.abs(q - self.p0).sum() + s.lambda_2 * (q @ q))

    def slope(self, solution: ConvexSolution) -> float:
        """How the best value changes with the cap: what the capped weights would gain, never positive."""
        cap, s = solution.cap, self.strengths
        gain = self.costs + s.lambda_1 * sign(cap - self.p0) + 2.0 * s.lambda_2 * cap - solution.multiplier
        return float(np.minimum(gain, 0.0)[self.upper > cap].sum())

    def lowest_cap(self) -> float:
        """The smallest cap under which the budget can be met: Σ min(t, upper) = budget."""
        if float(self.upper.min()) == float(self.upper.max()):
            return self.budget / self.upper.size
        zeros = np.zeros_like(self.upper)
        return -find_shift(zeros, self.budget, np.minimum(zeros, self.upper), self.upper)


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
