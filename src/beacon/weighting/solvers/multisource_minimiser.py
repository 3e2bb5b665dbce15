"""The full-convex update with several source domains: weights within each domain, then between them.

The paper's steps move the domain weights by the costs alone, as if less weight on a domain were less in all.
But the weights sum to a budget: what one domain gives another one takes. So the domain that is ahead by
chance takes everything, and weight and mass can part, down to a domain of small weight that has all of the
mass (docs/lab-notes.md). Here every level is minimised with its sum held:

1. the weights of all samples, as if every domain cost as little as the best, by what its own minimiser would
   keep: how much the target weighs, and what weighs how much within a domain;
2. the shares w of the domains in the mass M of the sources, with these shapes s of sum one (q = w M s), by
   the minimum of

       Σ_k w_k c_k + ρ1 |w_k − 1/K| + (ρ2 + λ2 M Σ s²) w_k²,   c_k = Σ s c,

   which is the objective over M. A small domain has a larger Σ s², so that few samples do not get half of
   everything;
3. the weights within each domain, for the mass that is now its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beacon.weighting.objective import TARGET
from beacon.weighting.problem import WeightProblem, Weights, domain_scale
from beacon.weighting.solvers.breakpoints import clip
from beacon.weighting.solvers.far_apart import is_close, restore_budget
from beacon.weighting.solvers.minimiser import minimise
from beacon.weighting.solvers.projection import soft_threshold
from beacon.weighting.validation import Ids, Vector

HALVINGS = 200  # of the interval of the multiplier; doubles run out before


def minimise_several(problem: WeightProblem) -> Weights:
    """Minimise within the domains, then between them.

    Args:
        problem: with ``source``; λ2 must be positive; w0 is uniform. ``w_min`` holds where the largest
            weights of a domain's samples allow it.
    """
    source, costs, strengths = problem.source, problem.costs, problem.strengths
    if source is None:
        raise ValueError("source: several source domains are needed")
    members = [problem.members(domain) for domain in range(problem.domains)]
    alike = costs.copy()
    kept = [_cost_of_kept_mass(problem, samples) for samples in members]
    for samples, cost in zip(members, kept, strict=True):
        alike[samples] -= cost - min(kept)
    within = minimise(replace(problem, costs=alike, capacity=0.0))

    q = within.q.copy()
    mass = float(q[source != TARGET].sum())
    w = np.full(problem.domains, 1.0 / problem.domains)
    if mass > 0.0:
        shapes = [_shape(q[samples]) for samples in members]
        room = np.array([min(1.0, float(problem.upper[samples].sum()) / mass) for samples in members])
        w = minimise_shares(
            np.array([shape @ costs[samples] for shape, samples in zip(shapes, members, strict=True)]),
            strengths.rho_2 + strengths.lambda_2 * mass * np.array([shape @ shape for shape in shapes]),
            strengths.rho_1,
            np.minimum(problem.w_min, room),
            room,
        )
        for share, samples in zip(w, members, strict=True):
            q[samples] = minimise(_part(problem, samples, share * mass)).q
    if not is_close(float(q.sum()), problem.budget):  # costs so far apart that the shares were rounded
        q = restore_budget(q, problem.budget, problem.lower, problem.upper)
    scale = domain_scale(w, source)
    q_tilde = np.divide(q, scale, out=np.zeros_like(q), where=scale > 0)
    return Weights(q, w, q_tilde, within.multiplier)


def _cost_of_kept_mass(problem: WeightProblem, samples: Ids) -> float:
    """What a domain costs by itself: the mean cost of the mass that its own minimiser keeps.

    A mean over all samples would grow with what is bad in a domain, although that is given no weight, and its
    sound part would then look cheaper than every other domain and than the target.
    """
    room = float(problem.upper[samples].sum())
    mass = min(problem.budget / problem.costs.size * samples.size, room)
    shape = _shape(minimise(_part(problem, samples, mass)).q)
    return float(shape @ problem.costs[samples])


def _part(problem: WeightProblem, samples: Ids, budget: float) -> WeightProblem:
    """The problem of some samples alone, with a budget of their own."""
    return WeightProblem(
        problem.costs[samples],
        problem.p0[samples],
        problem.lower[samples],
        problem.upper[samples],
        budget,
        problem.strengths,
    )


def minimise_shares(costs: Vector, curvature: Vector, rho_1: float, lower: Vector, upper: Vector) -> Vector:
    """The w of sum one in [lower, upper] that minimises Σ w_k c_k + ρ1 |w_k − 1/K| + a_k w_k², a_k > 0."""
    middle = 1.0 / costs.size

    def shares(multiplier: float) -> Vector:
        free = (multiplier - costs) / (2.0 * curvature) - middle
        return clip(middle + soft_threshold(free, rho_1 / (2.0 * curvature)), lower, upper)

    reach = float(2.0 * curvature.max() + rho_1)  # beyond it every share is at a bound
    low, high = float(costs.min()) - reach, float(costs.max()) + reach
    for _ in range(HALVINGS):
        multiplier = 0.5 * (low + high)
        if shares(multiplier).sum() > 1.0:
            high = multiplier
        else:
            low = multiplier
    unscaled = shares(low)
    return np.asarray(unscaled / unscaled.sum())


def _shape(weights: Vector) -> Vector:
    """Of sum one; alike where all are zero."""
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size)
