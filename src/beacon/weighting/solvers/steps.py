"""The paper's update: projected subgradient steps on the weights (paper, algorithm 1 and appendix B.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from beacon.weighting.chunks import map_chunks
from beacon.weighting.objective import capacity_push, weight_gradient
from beacon.weighting.problem import WeightProblem, Weights
from beacon.weighting.solvers.base import SOLVERS, Solver
from beacon.weighting.solvers.breakpoints import clip
from beacon.weighting.solvers.projection import clamp_budget, project_shifted
from beacon.weighting.validation import Vector, is_non_negative, require

Projection = Literal["clip", "direct"]

TOTAL_STEP = 6.0  # the paper's η_q times its number of refreshes, 0.01 × 600: how far weights travel in a run
SMALL_STEP = 0.01  # the paper's η_q; larger steps clip most source weights at once and erase their ranking


@SOLVERS.register("steps")
@dataclass(frozen=True)
class Steps(Solver):
    """Projected subgradient steps from the present weights. The defaults are the paper's."""

    # Step size of the weights, η_q; paper: 0.01 over 600 refreshes. "auto" lets weights travel as far as that
    # however many refreshes there are; it is the paper's algorithm at 600.
    eta_q: float | Literal["auto"] = "auto"
    # "clip" the step to the bounds, then project (paper; leaves no exact zeros), or project it "direct"ly.
    projection: Projection = "clip"
    # Several source domains: step size of the domain weights; paper: 0.01 to 0.1.
    eta_w: float = 0.05
    # Several source domains: step size of target weights; None is as eta_q; paper: unstated.
    eta_t: float | None = None
    # Several source domains: divide sample steps by w², so that K domains move as fast as one; paper: no.
    precondition: bool = False
    # Several source domains: the gradient of w is a "sum" over samples (as written), or divided by the "mean"
    # number of samples of a domain, so that eta_w means the same whatever the amount of data. With "sum", w
    # jumps to a vertex of the simplex at the first step.
    w_gradient: Literal["mean", "sum"] = "mean"
    # Several source domains: a source sample weighs at most w·q_max ("scaled"), so that a domain that has
    # vanished stays so, or at most q_max (the "box" as written), and samples of a vanished domain nothing.
    cap: Literal["scaled", "box"] = "scaled"

    shards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        eta = self.eta_q
        is_valid = is_non_negative(eta) if isinstance(eta, int | float) else eta == "auto"
        require(is_valid, "eta_q", "'auto' or a number of at least 0", eta)
        require(is_non_negative(self.eta_w), "eta_w", "a number of at least 0", self.eta_w)
        is_valid = self.eta_t is None or is_non_negative(self.eta_t)
        require(is_valid, "eta_t", "None or a number of at least 0", self.eta_t)
        for name, choices in (
            ("projection", ("clip", "direct")),
            ("w_gradient", ("mean", "sum")),
            ("cap", ("scaled", "box")),
        ):
            value = getattr(self, name)
            require(value in choices, name, " or ".join(map(repr, choices)), value)

    def solve(self, problem: WeightProblem, now: Weights, refresh: int, planned: int) -> Weights:
        """Take the steps of one refresh."""
        from beacon.weighting.solvers.multisource_steps import multisource_steps

        count, eta = self.schedule(refresh, planned)
        if problem.source is not None:
            return multisource_steps(problem, now, self, eta, count)
        q, shift = stochastic_steps(problem, now.q, eta=eta, steps=count, projection=self.projection)
        return Weights(q, now.w, now.q_tilde, shift)

    def schedule(self, refresh: int, planned: int) -> tuple[int, float]:
        """How many steps refresh number ``refresh`` (from 0) of ``planned`` takes, and of what size.

        With eta_q="auto" the weights travel as far as in the paper, 6, in steps of at most 0.01. The first
        refresh looks at a policy that has not learned yet: however few there are, it takes one such step.

        >>> Steps().schedule(5, 600), Steps().schedule(0, 7), Steps().schedule(1, 7)
        ((1, 0.01), (1, 0.01), (100, 0.01))
        """
        if self.eta_q != "auto":
            return 1, float(self.eta_q)
        if TOTAL_STEP / planned <= SMALL_STEP:
            return 1, TOTAL_STEP / planned
        if refresh == 0 and planned > 1:
            return 1, SMALL_STEP
        per_refresh = TOTAL_STEP / max(1, planned - 1)
        count = math.ceil(round(per_refresh / SMALL_STEP, 9))
        return count, per_refresh / count

    def largest_source_weight(self, q_max: float, domains: int) -> float:
        """q_max/K where caps are w·q_max, because w starts at 1/K."""
        return q_max / domains if self.cap == "scaled" else q_max


def stochastic_steps(
    problem: WeightProblem, q: Vector, *, eta: float, steps: int = 1, projection: Projection = "clip"
) -> tuple[Vector, float]:
    """Take ``steps`` steps q ← project(q − η ∂F/∂q) on the same costs; return the new q and the last shift ν.

    Args:
        problem: costs, bounds and strengths; its domains are not looked at.
        q: where to start, shape (N,); not changed.
        eta: step size.
        steps: number of steps.
        projection: "clip" clips the step to the bounds before the projection, as the paper does. Weights
            at the lower bound are then lifted by −ν, so none is ever exactly zero. "direct" projects
            the step itself, which leaves true zeros.
    """
    costs, p0, lower, upper = problem.costs, problem.p0, problem.lower, problem.upper
    strengths = problem.strengths
    budget = clamp_budget(problem.budget, lower, upper, problem.shard)
    stepped, spare = np.empty_like(q), np.empty_like(q)
    shift = 0.0
    for _ in range(steps):
        peak, push = capacity_push(q, strengths, problem.capacity, problem.shard)

        def step(
            part: slice, q: Vector = q, out: Vector = stepped, peak: float = peak, push: float = push
        ) -> None:
            gradient = weight_gradient(q[part], costs[part], p0[part], strengths)
            if push:
                gradient[q[part] == peak] += push
            gradient *= -eta
            gradient += q[part]
            if projection == "clip":
                clip(gradient, lower[part], upper[part], out=gradient)
            out[part] = gradient

        map_chunks(step, q.size)
        q, shift = project_shifted(stepped, budget, lower, upper, spare, problem.shard)
    return q, shift
