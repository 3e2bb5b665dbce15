"""The terms of the generalization bound that BEACON minimises (paper, theorem 1; Awasthi et al., 2023).

For weights q̄ = q/Σq, losses in [0, 1], ‖q̄ − p0‖₁ < 1, with probability 1 − δ,

    L(P, h) ≤ Σ q̄_i ℓ_i + q̄(S)·dis(P, Q) + dis(q̄, p0) + 2 Rad(q̄) + 6 ‖q̄ − p0‖₁
              + (‖q̄‖₂ + 2‖q̄ − p0‖₁) (√log log₂(2/(1 − ‖q̄ − p0‖₁)) + √(log(2/δ)/2)).

Weights that keep much of a large source are far from p0 (the empirical target distribution), and the
theorem says nothing about them; `bound_report` then says so instead of giving a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beacon.weighting.validation import finite_vector, non_negative_vector, to_numpy


@dataclass(frozen=True)
class BoundReport:
    """Each term of the bound; ``total`` only where the theorem holds and every term is known."""

    weighted_loss: float
    source_mass: float  # q̄(S)
    source_discrepancy: float | None  # q̄(S)·dis(P, Q); None without an estimate of dis(P, Q)
    sample_discrepancy: float  # dis(q̄, p0), or its bound ‖q̄ − p0‖₁
    complexity: float | None  # 2 Rad(q̄); None without an estimate
    distance: float  # ‖q̄ − p0‖₁
    distance_penalty: float  # 6 ‖q̄ − p0‖₁
    confidence: float | None  # the last term; None where it is not defined
    applicable: bool
    reason: str  # why the theorem does not apply, or which terms are not known; empty otherwise
    total: float | None


def bound_report(
    q: Any,
    losses: Any,
    is_target: Any,
    *,
    loss_scale: float | None = None,
    discrepancy: float | None = None,
    sample_discrepancy: float | None = None,
    rademacher: float | None = None,
    delta: float = 0.05,
) -> BoundReport:
    """Evaluate the bound at weights ``q``.

    Args:
        q: weights, shape (N,), of any positive sum.
        losses: ℓ, shape (N,), not negative.
        is_target: which samples are the target's, shape (N,).
        loss_scale: what the losses are divided by to lie in [0, 1]; by default their maximum.
        discrepancy: an estimate of dis(P, Q) on the scaled losses, for example the localized one.
        sample_discrepancy: an estimate of dis(q̄, p0); by default its upper bound ‖q̄ − p0‖₁.
        rademacher: an estimate of the weighted Rademacher complexity.
        delta: the bound may fail with this probability.
    """
    mask = to_numpy("is_target", is_target).astype(bool)
    if mask.ndim != 1 or not mask.any():
        raise ValueError("is_target: must be a vector with at least one target sample")
    weights = non_negative_vector("q", q, mask.size)
    values = non_negative_vector("losses", losses, mask.size)
    if not 0 < delta < 1:
        raise ValueError(f"delta: must be between 0 and 1, got {delta}")
    if weights.sum() <= 0:
        raise ValueError("q: the weights sum to zero")
    scale = loss_scale if loss_scale is not None else max(float(values.max()), 1e-300)
    if not scale > 0 or (values > scale * (1 + 1e-12)).any():
        raise ValueError(f"loss_scale: must be at least the largest loss, {values.max():.6g}, got {scale}")

    share = weights / weights.sum()
    p0 = finite_vector("p0", mask / mask.sum(), mask.size)
    distance = float(np.abs(share - p0).sum())
    source_mass = float(share[~mask].sum())
    applicable = distance < 1.0
    confidence = None
    if applicable:
        spread = math.sqrt(math.log(math.log2(2.0 / (1.0 - distance)))) if distance > 0 else 0.0
        confidence = (float(np.linalg.norm(share)) + 2.0 * distance) * (
            spread + math.sqrt(math.log(2.0 / delta) / 2)
        )
    terms = (
        float(share @ values) / scale,
        None if discrepancy is None else source_mass * discrepancy,
        distance if sample_discrepancy is None else sample_discrepancy,
        None if rademacher is None else 2.0 * rademacher,
        6.0 * distance,
        confidence,
    )
    unknown = [
        n for n, v in (("dis(P, Q)", discrepancy), ("the Rademacher complexity", rademacher)) if v is None
    ]
    if not applicable:
        reason = (
            f"the theorem needs ‖q̄ − p0‖₁ < 1, but it is {distance:.3f}: {source_mass:.1%} of the weight "
            "is on source samples"
        )
    else:
        reason = f"no estimate was given of {' and '.join(unknown)}" if unknown else ""
    known = [term for term in terms if term is not None]
    return BoundReport(
        weighted_loss=float(share @ values) / scale,
        source_mass=source_mass,
        source_discrepancy=terms[1],
        sample_discrepancy=distance if sample_discrepancy is None else sample_discrepancy,
        complexity=terms[3],
        distance=distance,
        distance_penalty=6.0 * distance,
        confidence=confidence,
        applicable=applicable,
        reason=reason,
        total=math.fsum(known) if applicable and not unknown else None,
    )
