"""Unbalanced optimal transport between a batch of source and a batch of target samples."""

from __future__ import annotations

import math
import warnings
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Reference = Literal["diag", "outer"]
ITERATIONS = 200  # at most; 15 to 30 are enough, because each one shrinks the error by (τ / (τ + reg))²
PRECISION = 1e-12  # of the plan on a GPU, where asking how far it is would cost more than the iteration


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
    if costs.device.type != "cpu":
        return sinkhorn_plan(costs.detach(), reg=reg, tau=tau, reference=reference)
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


def sinkhorn_plan(costs: Tensor, *, reg: float, tau: float, reference: Reference) -> Tensor:
    """As `transport_plan`, on the device of the costs and without a look at how far the iteration is.

    u = (a / K v)^f and v = (b / Kᵀ u)^f in turns, with K = C ∘ exp(−M / reg) and f = τ / (τ + reg). The error
    shrinks by f² a turn, so the number of turns is known beforehand.

    Args:
        costs: M, (m, n); ``diag`` needs m = n.
        reg: strength of the entropy.
        tau: strength of the marginals.
        reference: C.
    """
    m, n = costs.shape
    table = costs.double()
    prior = torch.eye(m, device=costs.device, dtype=torch.float64) / m if reference == "diag" else 1 / (m * n)
    kernel = torch.exp(-table / reg) * prior
    share = tau / (tau + reg)
    turns = min(ITERATIONS, math.ceil(math.log(PRECISION) / (2 * math.log(share))))
    u, v = kernel.new_ones(m), kernel.new_ones(n)
    for _ in range(turns):
        u = _scaling(1 / m, kernel @ v, share)
        v = _scaling(1 / n, kernel.T @ u, share)
    return (u[:, None] * kernel * v).to(costs.dtype)


def _scaling(marginal: float, reached: Tensor, share: float) -> Tensor:
    """(marginal / reached)^share; zero where nothing is worth transporting."""
    none = reached <= 0
    return ((marginal / reached.masked_fill(none, 1.0)) ** share).masked_fill(none, 0.0)


def transport_loss(costs: Tensor, *, reg: float, tau: float, reference: Reference) -> Tensor:
    """⟨π, M⟩ with π of `transport_plan` held fixed: the gradient goes through M only."""
    return (transport_plan(costs, reg=reg, tau=tau, reference=reference) * costs).sum()
