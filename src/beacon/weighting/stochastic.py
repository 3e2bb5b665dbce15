"""The stochastic update: projected subgradient steps on the weights (paper, algorithm 1)."""

from __future__ import annotations

import numpy as np

from beacon.weighting.checks import Vector
from beacon.weighting.chunks import map_chunks
from beacon.weighting.config import Projection
from beacon.weighting.objective import Strengths, capacity_push, weight_gradient
from beacon.weighting.projection import apply_shift, clamp_budget, clip, find_shift


def stochastic_update(
    q: Vector,
    costs: Vector,
    p0: Vector,
    lower: Vector,
    upper: Vector,
    budget: float,
    strengths: Strengths,
    *,
    eta: float,
    steps: int = 1,
    capacity: float = 0.0,
    projection: Projection = "clip",
) -> tuple[Vector, float]:
    """Take ``steps`` steps q ← project(q − η ∂F/∂q) on the same costs; return the new q and the last shift ν.

    Args:
        q: weights, shape (N,); not changed.
        costs: ℓ + λ_d d, shape (N,).
        p0: reference weights, shape (N,).
        lower: smallest weights, shape (N,).
        upper: largest weights, shape (N,).
        budget: what the weights sum to.
        strengths: the coefficients of the objective.
        eta: step size.
        steps: number of steps.
        capacity: R(θ) = ½‖θ‖².
        projection: "clip" clips the step to the bounds before the projection, as the paper does. Weights
            at the lower bound are then lifted by −ν, so none is ever exactly zero. "direct" projects
            the step itself, which leaves true zeros.
    """
    budget = clamp_budget(budget, lower, upper)
    stepped, spare = np.empty_like(q), np.empty_like(q)
    shift = 0.0
    for _ in range(steps):
        peak, push = capacity_push(q, strengths, capacity)

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
        shift = find_shift(stepped, budget, lower, upper)
        q = apply_shift(stepped, shift, lower, upper, out=stepped)
        stepped, spare = spare, stepped
    return q, shift
