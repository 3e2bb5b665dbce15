"""Unbalanced optimal transport between a batch of source and a batch of target samples."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Reference = Literal["diag", "outer"]
ITERATIONS = 200  # at most; 15 to 30 are enough, because each one shrinks the error by (τ / (τ + reg))²


def pair_costs(
    source: Tensor,
    target: Tensor,
    source_labels: Tensor,
    target_labels: Tensor,
    *,
    feature_cost: float,
    label_cost: float,
) -> Tensor:
    """M_ij = feature_cost ‖f_i − f_j‖² + label_cost ‖y_i − y_j‖², (m, n); labels are not differentiated.

    Args:
        source, target: features, (m, D) and (n, D).
        source_labels, target_labels: what should agree where features agree, (m, L) and (n, L).
        feature_cost, label_cost: strengths.
    """
    features = (source[:, None] - target[None]).square().sum(dim=-1)
    labels = (source_labels.detach()[:, None] - target_labels.detach()[None]).square().sum(dim=-1)
    return feature_cost * features + label_cost * labels


def transport_plan(costs: Tensor, *, reg: float, tau: float, reference: Reference) -> Tensor:
    """The plan π of entropic unbalanced transport between uniform marginals, (m, n), without gradient.

    π = argmin ⟨π, M⟩ + reg KL(π | C) + τ KL(π1 | a) + τ KL(πᵀ1 | b),  a = 1/m, b = 1/n

    (Chizat et al. 2018), by POT's Sinkhorn iteration. C is a bᵀ for ``outer``. For ``diag`` it is I/m: all
    entries off the diagonal are zero, and what remains weighs each given pair by how well it fits.

    Args:
        costs: M, (m, n); ``diag`` needs m = n.
        reg: strength of the entropy.
        tau: strength of the marginals.
        reference: C.
    """
    import ot  # a second to import

    m, n = costs.shape
    table = costs.detach().double().cpu().numpy()
    a, b = np.full(m, 1 / m), np.full(n, 1 / n)
    prior = np.diag(a) if reference == "diag" else np.outer(a, b)
    with warnings.catch_warnings():
        # Costs so large that nothing is worth transporting: the plan is zero, as it should be.
        warnings.filterwarnings("ignore", message="Numerical errors")
        with np.errstate(all="ignore"):
            plan = ot.unbalanced.sinkhorn_unbalanced(
                a, b, table, reg, tau, reg_type="kl", c=prior, numItermax=ITERATIONS, stopThr=1e-9
            )
    return torch.from_numpy(plan).to(costs)


def transport_loss(costs: Tensor, *, reg: float, tau: float, reference: Reference) -> Tensor:
    """⟨π, M⟩ with π of `transport_plan` held fixed: the gradient goes through M only."""
    return (transport_plan(costs, reg=reg, tau=tau, reference=reference) * costs).sum()
