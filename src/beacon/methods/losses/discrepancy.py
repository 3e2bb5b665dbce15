"""How far two sets of features are apart: energy distance and maximum mean discrepancy."""

from __future__ import annotations

import torch
from torch import Tensor

KERNELS, FACTOR = 5, 2.0  # of the multi-kernel MMD (Long et al. 2015)


def energy_distance(source: Tensor, target: Tensor, *, unbiased: bool = False) -> Tensor:
    """Energy distance between two samples, as a scalar that is zero for equal samples.

    E = mean_ij ‖x_i − y_j‖ − ½ mean_ij ‖x_i − x_j‖ − ½ mean_ij ‖y_i − y_j‖

    (Székely and Rizzo 2013). This is half of their definition, as ``geomloss.SamplesLoss("energy")`` has it,
    so that strengths found with that library mean the same here.

    Args:
        source: x, (m, D).
        target: y, (n, D).
        unbiased: leave pairs of a sample with itself out of the means. Otherwise small samples look farther
            apart than they are, and features shrink to mend it.

    >>> energy_distance(torch.zeros(2, 1), torch.ones(3, 1))
    tensor(1.)
    """
    own, others = (len(points) / (len(points) - 1) if unbiased else 1.0 for points in (source, target))
    return (
        _distances(source, target).mean()
        - 0.5 * own * _distances(source, source).mean()
        - 0.5 * others * _distances(target, target).mean()
    )


def multi_kernel_mmd(
    source: Tensor, target: Tensor, kernels: int = KERNELS, factor: float = FACTOR
) -> Tensor:
    """Squared maximum mean discrepancy under a sum of Gaussian kernels, a scalar (Long et al. 2015, DAN).

    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y),  k(a, b) = Σ_u exp(−‖a − b‖² / (σ² factor^u))

    with u centred on zero and σ² the mean squared distance between two different samples of both sets, which
    is not differentiated through.

    Args:
        source: x, (m, D).
        target: y, (n, D).
        kernels: how many widths.
        factor: between one width and the next.
    """
    both = torch.cat([source, target])
    squared = _distances(both, both).square()
    width = squared.detach().sum() / (len(both) * (len(both) - 1))
    # Of samples that are all the same there is no width, and nothing to move.
    width = torch.where(width > 0, width, torch.ones_like(width))
    scales = width * factor ** (torch.arange(kernels, device=both.device) - kernels // 2).to(both.dtype)
    kernel = torch.exp(-squared / scales[:, None, None]).sum(dim=0)
    m = len(source)
    return kernel[:m, :m].mean() + kernel[m:, m:].mean() - 2 * kernel[:m, m:].mean()


def _distances(first: Tensor, second: Tensor) -> Tensor:
    """‖a_i − b_j‖, (m, n); its gradient at zero distance is zero, not NaN."""
    # Through a matrix product small distances would drown in rounding errors.
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
