"""BEACON's objective for fixed policy parameters, term by term, and its gradients.

    F(q) = Σ q_i (ℓ_i + λ_d d_i) + γ ‖q‖_∞ R(θ) + λ1 ‖q − p0‖₁ + λ2 ‖q‖₂²          (paper, equation 6)

With several source domains q_i = w_{s(i)} q̃_i on the sources, q_j = q̃_j on the target, and
ρ1 ‖w − w0‖₁ + ρ2 ‖w‖₂² is added (paper, appendix B.3).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.validation import Ids, Vector

TARGET = -1  # in a vector of source-domain ids: this sample belongs to the target


@dataclass(frozen=True)
class Strengths:
    """The coefficients of the objective."""

    lambda_d: float
    lambda_1: float
    lambda_2: float
    gamma: float = 0.0
    rho_1: float = 0.0
    rho_2: float = 0.0


@dataclass(frozen=True)
class ObjectiveTerms:
    """The value of every term of the objective."""

    loss: float  # Σ q_i ℓ_i
    discrepancy: float  # λ_d Σ q_i d_i
    capacity: float  # γ ‖q‖_∞ R(θ)
    l1: float  # λ1 ‖q − p0‖₁
    l2: float  # λ2 ‖q‖₂²
    domain_l1: float = 0.0  # ρ1 ‖w − w0‖₁
    domain_l2: float = 0.0  # ρ2 ‖w‖₂²

    @property
    def total(self) -> float:
        """The objective."""
        return float(sum(asdict(self).values()))


def objective_terms(
    q: Vector,
    losses: Vector,
    discrepancies: Vector,
    p0: Vector,
    strengths: Strengths,
    capacity: float = 0.0,
    w: Vector | None = None,
) -> ObjectiveTerms:
    """Every term of F at q.

    Args:
        q: weights, shape (N,).
        losses: ℓ, shape (N,).
        discrepancies: d, shape (N,), zero on the target.
        p0: reference weights, shape (N,).
        strengths: the coefficients.
        capacity: R(θ) = ½‖θ‖².
        w: domain weights, shape (K,), if there are several source domains; w0 is uniform.
    """
    off = 0.0 if w is None else float(np.abs(w - 1.0 / w.size).sum())
    square = 0.0 if w is None else float(w @ w)
    return ObjectiveTerms(
        loss=float(q @ losses),
        discrepancy=strengths.lambda_d * float(q @ discrepancies),
        capacity=strengths.gamma * float(q.max()) * capacity,
        l1=strengths.lambda_1 * float(np.abs(q - p0).sum()),
        l2=strengths.lambda_2 * float(q @ q),
        domain_l1=strengths.rho_1 * off,
        domain_l2=strengths.rho_2 * square,
    )


def sign(x: Vector) -> Vector:
    """``np.sign`` for numbers that are not NaN, several times faster."""
    return np.subtract(x > 0, x < 0, dtype=np.float64)


def weight_gradient(q: Vector, costs: Vector, p0: Vector, strengths: Strengths) -> Vector:
    """∂F/∂q without the capacity term, ``c + λ1 sign(q − p0) + 2 λ2 q``, where c = ℓ + λ_d d."""
    gradient = costs + (2.0 * strengths.lambda_2) * q
    if strengths.lambda_1:
        gradient += strengths.lambda_1 * sign(q - p0)
    return gradient


def capacity_push(
    q: Vector, strengths: Strengths, capacity: float, shard: Shard = WHOLE
) -> tuple[float, float]:
    """The subgradient of γ‖q‖_∞ R(θ): the largest weight, and what each sample that has it gets, evenly."""
    if strengths.gamma * capacity == 0.0:
        return math.nan, 0.0
    largest = shard.largest(float(q.max(initial=-math.inf)))
    return largest, strengths.gamma * capacity / int(shard.totals(np.count_nonzero(q == largest))[0])


def domain_data_gradient(q_tilde: Vector, gradient: Vector, source: Ids, count: int) -> Vector:
    """The part of ∂F/∂w_k that comes from samples, Σ_{i∈S_k} q̃_i g_i, shape (K,).

    Args:
        q_tilde: within-domain weights, shape (N,).
        gradient: g = ∂F/∂q, shape (N,).
        source: source domain of every sample, shape (N,); `TARGET` for target samples.
        count: K.
    """
    # Target samples (-1) fall into the first bin, which is cut off.
    sums = np.bincount(source + 1, weights=q_tilde * gradient, minlength=count + 1)
    return np.asarray(sums[1:], dtype=np.float64)


def domain_penalty_gradient(w: Vector, strengths: Strengths) -> Vector:
    """The part of ∂F/∂w_k that comes from the penalties, ρ1 sign(w_k − 1/K) + 2 ρ2 w_k, shape (K,)."""
    return strengths.rho_1 * sign(w - 1.0 / w.size) + 2.0 * strengths.rho_2 * w


def within_domain_gradient(gradient: Vector, scale: Vector) -> Vector:
    """∂F/∂q̃_i = w_{s(i)} g_i on the sources and g_j on the target; ``scale`` is w_{s(i)} or 1."""
    return scale * gradient
