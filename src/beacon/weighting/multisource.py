"""Several source domains: a weight for each, and weights within each (paper, appendix B.3).

The weight of a source sample is ``q_i = w_{s(i)} q̃_i`` with w in the simplex, of a target sample q̃_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.weighting.checks import Ids, Vector
from beacon.weighting.config import Projection
from beacon.weighting.objective import (
    TARGET,
    Strengths,
    domain_data_gradient,
    domain_penalty_gradient,
    weight_gradient,
    within_domain_gradient,
)
from beacon.weighting.projection import apply_shift, clamp_budget, clip, find_shift, project_simplex

VANISHED = 1e-8  # a domain whose weight is below this counts as gone: its samples weigh zero


@dataclass(frozen=True)
class TwoLevelWeights:
    """Domain weights w (K,) and within-domain weights q̃ (N,)."""

    w: Vector
    q_tilde: Vector

    def scale(self, source: Ids) -> Vector:
        """w_{s(i)} for source samples, one for target samples."""
        return np.append(self.w, 1.0)[source]  # TARGET is -1, the appended entry

    def composite(self, source: Ids) -> Vector:
        """Q."""
        return self.scale(source) * self.q_tilde


@dataclass(frozen=True)
class MultiSourceSteps:
    """Step sizes and choices of the multi-source update."""

    eta_q: float
    eta_t: float
    eta_w: float
    steps: int = 1
    projection: Projection = "clip"
    precondition: bool = False  # divide the steps of source samples by w², undoing the two-level slow-down
    w_min: float = 0.0


def start_two_level(p0: Vector, source: Ids, count: int) -> TwoLevelWeights:
    """W = 1/K and q̃ = p0/w, so that q = p0."""
    return TwoLevelWeights(np.full(count, 1.0 / count), np.where(source == TARGET, p0, p0 * count))


def multisource_update(
    weights: TwoLevelWeights,
    costs: Vector,
    p0: Vector,
    source: Ids,
    lower: Vector,
    q_max: Vector | float,
    budget: float,
    strengths: Strengths,
    choice: MultiSourceSteps,
) -> tuple[TwoLevelWeights, Vector, float]:
    """One refresh: w-step, q̃-step with the new w, joint projection of q. Returns the weights, q and ν.

    The data part of ∂F/∂w is a sum over all source samples; it is divided by m/K, so that eta_w means
    the same whatever the amount of data (paper unstated; undivided, w jumps to a vertex at once).
    A source sample may weigh at most w_k·q_max, so that a domain that has vanished stays so.

    Args:
        weights: where to start; not changed.
        costs: ℓ + λ_d d, shape (N,).
        p0: reference weights, shape (N,).
        source: source domain of every sample, shape (N,); `TARGET` for target samples.
        lower: smallest weights, shape (N,); zero on the sources.
        q_max: largest weight, or the largest of every sample, shape (N,).
        budget: what q sums to; clamped with a warning when the caps w_k·q_max cannot meet it.
        strengths: the coefficients of the objective.
        choice: step sizes and options.
    """
    on_target = source == TARGET
    per_domain = np.count_nonzero(~on_target) / weights.w.size
    eta = np.where(on_target, choice.eta_t, choice.eta_q)
    shift = 0.0
    q = weights.composite(source)
    for _ in range(choice.steps):
        gradient = weight_gradient(q, costs, p0, strengths)
        slope = domain_data_gradient(weights.q_tilde, gradient, source, weights.w.size) / per_domain
        slope += domain_penalty_gradient(weights.w, strengths)
        w = project_simplex(weights.w - choice.eta_w * slope, lower=choice.w_min)

        moved = TwoLevelWeights(w, weights.q_tilde)
        scale = moved.scale(source)
        step = within_domain_gradient(weight_gradient(moved.composite(source), costs, p0, strengths), scale)
        if choice.precondition:
            step /= np.maximum(scale, VANISHED) ** 2
        q_tilde = weights.q_tilde - eta * step
        if choice.projection == "clip":
            q_tilde = clip(q_tilde, lower, q_max)

        scale[scale < VANISHED] = 0.0
        upper = scale * q_max
        q = scale * q_tilde
        shift = find_shift(q, clamp_budget(budget, lower, upper), lower, upper)
        q = apply_shift(q, shift, lower, upper)
        weights = TwoLevelWeights(w, np.divide(q, scale, out=np.zeros_like(q), where=scale > 0))
    return weights, q, shift
