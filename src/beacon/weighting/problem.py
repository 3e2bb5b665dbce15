"""What a solver is given and what it gives: the problem of one refresh, and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beacon.weighting.objective import TARGET, Strengths
from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.validation import Ids, Vector


@dataclass(frozen=True, eq=False)
class WeightProblem:
    """Minimise Σ q c + γ‖q‖_∞ R(θ) + λ1‖q − p0‖₁ + λ2‖q‖₂² over lower ≤ q ≤ upper, Σq = budget.

    With several source domains q_i = w_{s(i)} q̃_i on the sources, and ρ1‖w − w0‖₁ + ρ2‖w‖₂² is added.

    Args:
        costs: c = ℓ + λ_d d, shape (N,).
        p0: reference weights, shape (N,).
        lower: smallest weights, shape (N,); the target floor belongs here, sources have zero.
        upper: largest weights, shape (N,).
        budget: what the weights sum to; clamped with a warning where the bounds cannot meet it.
        strengths: the coefficients of the objective.
        capacity: R(θ) = ½‖θ‖².
        source: source domain of every sample, shape (N,), `TARGET` for target samples; None: one source, or
            several that are treated as one.
        domains: number K of source domains.
        w_min: smallest domain weight.
        shard: where several processes solve together: whose samples the arrays hold; the budget is of all.
    """

    costs: Vector
    p0: Vector
    lower: Vector
    upper: Vector
    budget: float
    strengths: Strengths
    capacity: float = 0.0
    source: Ids | None = None
    domains: int = 1
    w_min: float = 0.0
    shard: Shard = WHOLE

    def part(self, shard: Shard) -> WeightProblem:
        """What one of several processes solves of this problem."""
        rows = shard.rows
        costs, p0, lower, upper = (v[rows] for v in (self.costs, self.p0, self.lower, self.upper))
        return replace(self, costs=costs, p0=p0, lower=lower, upper=upper, shard=shard)

    def members(self, domain: int) -> Ids:
        """Indices of the samples of a source domain."""
        if self.source is None:
            raise ValueError("the problem has a single source domain")
        return np.flatnonzero(self.source == domain)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights q (N,), and with several source domains w (K,) and q̃ (N,) with q = w·q̃.

    ``shift`` is ν, the multiplier of the budget in the last projection.
    """

    q: Vector
    w: Vector
    q_tilde: Vector
    shift: float = 0.0

    @classmethod
    def start(cls, p0: Vector, source: Ids, domains: int) -> Weights:
        """Q = p0 with w = 1/K and q̃ = p0/w."""
        w = np.full(domains, 1.0 / domains)
        if domains == 1:  # q̃ is not used, and is not to cost a vector
            return cls(p0, w, p0)
        return cls(p0, w, np.where(source == TARGET, p0, p0 * domains))


def domain_scale(w: Vector, source: Ids) -> Vector:
    """w_{s(i)} for source samples, one for target samples, shape (N,)."""
    return np.asarray(np.append(w, 1.0)[source])  # TARGET is -1, the appended entry
