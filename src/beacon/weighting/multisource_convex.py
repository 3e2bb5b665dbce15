"""The full-convex update with several source domains: weights within each domain, then between them.

The paper's steps move the domain weights by the costs alone, as if less weight on a domain were less in all.
But the weights sum to a budget: what one domain gives another one takes. So the domain that is ahead by
chance takes everything, and weight and mass can part, down to a domain of small weight that has all of the
mass (docs/findings.md). Here every level is minimised with its sum held:

1. the weights of all samples, as if every domain cost as little as the best: how much the target weighs, and
   what weighs how much within a domain;
2. the shares w of the domains in the mass M of the sources, with these shapes s of sum one (q = w M s), by
   the minimum of

       Σ_k w_k c_k + ρ1 |w_k − 1/K| + (ρ2 + λ2 M Σ s²) w_k²,   c_k = Σ s c,

   which is the objective over M. A small domain has a larger Σ s², so that few samples do not get half of
   everything;
3. the weights within each domain, for the mass that is now its own.
"""

from __future__ import annotations

import numpy as np

from beacon.weighting.checks import Ids, Vector
from beacon.weighting.convex import ConvexSolution, convex_update
from beacon.weighting.multisource import TwoLevelWeights
from beacon.weighting.objective import TARGET, Strengths
from beacon.weighting.projection import clip, soft_threshold

HALVINGS = 200  # of the interval of the multiplier; doubles run out before


def multisource_convex_update(
    costs: Vector,
    p0: Vector,
    source: Ids,
    count: int,
    lower: Vector,
    upper: Vector,
    budget: float,
    strengths: Strengths,
    *,
    w_min: float = 0.0,
) -> tuple[TwoLevelWeights, ConvexSolution]:
    """Minimise within the domains, then between them. Returns both levels, and the weights of all samples.

    Args:
        costs: ℓ + λ_d d, shape (N,).
        p0: reference weights, shape (N,); w0 is uniform.
        source: source domain of every sample, shape (N,); `TARGET` for target samples.
        count: number K of source domains.
        lower: smallest weights, shape (N,); zero on the sources.
        upper: largest weights, shape (N,).
        budget: what the weights sum to; clamped with a warning when it cannot be met.
        strengths: the coefficients; λ2 must be positive.
        w_min: smallest domain weight, where the largest weights of its samples allow it.
    """
    members = [np.flatnonzero(source == domain) for domain in range(count)]
    alike = costs.copy()
    means = [float(costs[mine].mean()) for mine in members]
    for mine, mean in zip(members, means, strict=True):
        alike[mine] -= mean - min(means)
    within = convex_update(alike, p0, lower, upper, budget, strengths)

    q = within.q.copy()
    mass = float(q[source != TARGET].sum())
    w = np.full(count, 1.0 / count)
    if mass > 0.0:
        shapes = [_shape(q[mine]) for mine in members]
        room = np.array([min(1.0, float(upper[mine].sum()) / mass) for mine in members])
        w = minimise_shares(
            np.array([shape @ costs[mine] for shape, mine in zip(shapes, members, strict=True)]),
            strengths.rho_2 + strengths.lambda_2 * mass * np.array([shape @ shape for shape in shapes]),
            strengths.rho_1,
            np.minimum(w_min, room),
            room,
        )
        for share, mine in zip(w, members, strict=True):
            bounds = lower[mine], upper[mine]
            q[mine] = convex_update(costs[mine], p0[mine], *bounds, share * mass, strengths).q
    scale = np.append(w, 1.0)[source]
    levels = TwoLevelWeights(w, np.divide(q, scale, out=np.zeros_like(q), where=scale > 0))
    return levels, ConvexSolution(q, within.cap, within.multiplier)


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
    found = shares(low)
    return np.asarray(found / found.sum())


def _shape(weights: Vector) -> Vector:
    """Of sum one; alike where all are zero."""
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size)
