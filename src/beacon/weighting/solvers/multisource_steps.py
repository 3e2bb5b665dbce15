"""The paper's steps with several source domains: a weight for each, and weights within each (appendix B.3).

The weight of a source sample is ``q_i = w_{s(i)} q̃_i`` with w in the simplex, of a target sample q̃_j.
Composite source weights move by η_q w² times their gradient, so with K sources K² times more slowly than with
one; `Steps.precondition` undoes that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from beacon.weighting.objective import (
    TARGET,
    domain_data_gradient,
    domain_penalty_gradient,
    weight_gradient,
    within_domain_gradient,
)
from beacon.weighting.problem import WeightProblem, Weights, domain_scale
from beacon.weighting.solvers.breakpoints import clip
from beacon.weighting.solvers.projection import clamp_budget, project_shifted, project_simplex

if TYPE_CHECKING:
    from beacon.weighting.solvers.steps import Steps

VANISHED = 1e-8  # a domain whose weight is below this counts as gone: its samples weigh zero


def multisource_steps(
    problem: WeightProblem, now: Weights, options: Steps, eta: float, count: int
) -> Weights:
    """One refresh: w-step, q̃-step with the new w, joint projection of q.

    Args:
        problem: with ``source``; budgets that the caps cannot meet are clamped with a warning.
        now: where to start; not changed.
        options: of the steps.
        eta: η_q.
        count: number of steps on the same costs.
    """
    source = problem.source
    if source is None:
        raise ValueError("source: several source domains are needed")
    costs, p0, lower, strengths = problem.costs, problem.p0, problem.lower, problem.strengths
    on_target = source == TARGET
    per_domain = np.count_nonzero(~on_target) / now.w.size if options.w_gradient == "mean" else 1.0
    step_sizes = np.where(on_target, eta if options.eta_t is None else options.eta_t, eta)
    w, q_tilde, shift = now.w, now.q_tilde, 0.0
    q = domain_scale(w, source) * q_tilde
    for _ in range(count):
        gradient = weight_gradient(q, costs, p0, strengths)
        slope = domain_data_gradient(q_tilde, gradient, source, w.size) / per_domain
        slope += domain_penalty_gradient(w, strengths)
        w = project_simplex(w - options.eta_w * slope, lower=problem.w_min)

        scale = domain_scale(w, source)
        step = within_domain_gradient(weight_gradient(scale * q_tilde, costs, p0, strengths), scale)
        if options.precondition:
            step /= np.maximum(scale, VANISHED) ** 2
        q_tilde = q_tilde - step_sizes * step
        if options.projection == "clip":
            q_tilde = clip(q_tilde, lower, problem.upper)

        scale[scale < VANISHED] = 0.0
        upper = scale * problem.upper
        if options.cap == "box":
            upper = np.where(scale > 0, problem.upper, 0.0)
        q = scale * q_tilde
        q, shift = project_shifted(q, clamp_budget(problem.budget, lower, upper), lower, upper)
        q_tilde = np.divide(q, scale, out=np.zeros_like(q), where=scale > 0)
    return Weights(q, w, q_tilde, shift)
