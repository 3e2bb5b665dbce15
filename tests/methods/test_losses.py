"""Feature losses against other people's implementations, closed forms and optimality conditions."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance as scipy_energy_distance
from sklearn.metrics.pairwise import rbf_kernel

from beacon.methods.losses import (
    energy_distance,
    multi_kernel_mmd,
    pair_costs,
    transport_loss,
    transport_plan,
)


def samples(m: int, n: int, features: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.normal(size=(m, features))), torch.tensor(rng.normal(0.5, 2, size=(n, features)))


def test_energy_distance_is_half_of_scipys_squared_in_one_dimension() -> None:
    x, y = samples(30, 11, 1)
    expected = scipy_energy_distance(x[:, 0].numpy(), y[:, 0].numpy()) ** 2 / 2
    assert energy_distance(x, y).item() == pytest.approx(expected)


def test_energy_distance_is_what_it_says_with_pots_distances() -> None:
    x, y = samples(17, 9, 6)

    def mean(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(ot.dist(a.numpy(), b.numpy(), metric="euclidean").mean())

    expected = mean(x, y) - mean(x, x) / 2 - mean(y, y) / 2
    assert energy_distance(x, y).item() == pytest.approx(expected)


def test_multi_kernel_mmd_agrees_with_scikit_learns_kernels() -> None:
    x, y = samples(12, 7, 4)
    both = torch.cat([x, y]).numpy()
    width = cdist(both, both, "sqeuclidean").sum() / (len(both) * (len(both) - 1))
    kernel = sum(rbf_kernel(both, gamma=1 / (width * 2.0**power)) for power in range(-2, 3))
    expected = kernel[:12, :12].mean() + kernel[12:, 12:].mean() - 2 * kernel[:12, 12:].mean()
    assert multi_kernel_mmd(x, y).item() == pytest.approx(expected)


def test_the_unbiased_energy_distance_is_zero_on_average_between_small_samples_of_one_distribution() -> None:
    drawn = torch.randn(4000, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    unbiased = torch.stack([energy_distance(x[:2], x[2:], unbiased=True) for x in drawn])
    assert unbiased.mean().abs() < 4 * unbiased.std() / len(drawn) ** 0.5
    assert torch.stack([energy_distance(x[:2], x[2:]) for x in drawn]).mean() > 0.5


@pytest.mark.parametrize("distance", [energy_distance, multi_kernel_mmd])
def test_equal_samples_are_no_distance_apart_and_have_finite_gradients(distance) -> None:
    x, _ = samples(8, 8, 3)
    x.requires_grad_()
    value = distance(x, x.detach().clone())
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-9)
    assert torch.isfinite(x.grad).all()
    constant = torch.zeros(4, 3, requires_grad=True)
    distance(constant, torch.zeros(5, 3)).backward()
    assert torch.isfinite(constant.grad).all()


def test_gradients_are_those_of_finite_differences() -> None:
    x, y = samples(5, 4, 3)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda a: energy_distance(a, y), x)
    # The width of the kernels is held fixed in the gradient, so only its direction is that of the value.
    before = multi_kernel_mmd(x, y)
    before.backward()
    assert multi_kernel_mmd(x - 0.05 * x.grad / x.grad.norm(), y) < before


def test_costs_are_squared_distances_and_labels_get_no_gradient() -> None:
    x, y = samples(6, 5, 4)
    a, b = samples(6, 5, 3, seed=1)
    x.requires_grad_(), a.requires_grad_()
    costs = pair_costs(x, y, a, b, feature_cost=0.01, label_cost=0.05)
    expected = 0.01 * ot.dist(x.detach().numpy(), y.numpy()) + 0.05 * ot.dist(a.detach().numpy(), b.numpy())
    np.testing.assert_allclose(costs.detach().numpy(), expected)
    costs.sum().backward()
    assert x.grad is not None and a.grad is None


@pytest.mark.parametrize("reference", ["outer", "diag"])
def test_the_plan_is_optimal(reference) -> None:
    x, y = samples(7, 7, 3)
    costs = pair_costs(x, y, x[:, :1], y[:, :1], feature_cost=0.03, label_cost=0.05)
    reg, tau = 0.1, 0.05
    plan = transport_plan(costs, reg=reg, tau=tau, reference=reference).numpy()
    prior = np.eye(7) / 7 if reference == "diag" else np.full((7, 7), 1 / 49)
    assert (plan[prior == 0] == 0).all() and (plan[prior > 0] > 0).all()
    # Where mass may be, the objective is flat: M + reg log(π/C) + τ log(π1/a) + τ log(πᵀ1/b) = 0.
    rows, columns = plan.sum(1, keepdims=True), plan.sum(0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (
            costs.numpy() + reg * np.log(plan / prior) + tau * np.log(7 * rows) + tau * np.log(7 * columns)
        )
    np.testing.assert_allclose(slope[prior > 0], 0, atol=1e-6)


def test_diag_weighs_each_pair_by_its_own_cost() -> None:
    x, y = samples(6, 6, 2)
    costs = pair_costs(x, y, x, y, feature_cost=0.1, label_cost=0.0)
    plan = transport_plan(costs, reg=0.1, tau=0.05, reference="diag")
    expected = np.diag(np.exp(-costs.diagonal().numpy() / (0.1 + 2 * 0.05)) / 6)
    np.testing.assert_allclose(plan.numpy(), expected, rtol=1e-6, atol=1e-12)


def test_marginals_are_uniform_when_they_are_enforced_and_fall_short_when_not() -> None:
    x, y = samples(8, 5, 3)
    costs = pair_costs(x, y, x[:, :1], y[:, :1], feature_cost=0.05, label_cost=0.05)
    strict = transport_plan(costs, reg=0.1, tau=1e4, reference="outer")
    np.testing.assert_allclose(strict.sum(1), 1 / 8, rtol=1e-3)
    np.testing.assert_allclose(strict.sum(0), 1 / 5, rtol=1e-3)
    loose = transport_plan(costs, reg=0.1, tau=0.05, reference="outer")
    assert loose.sum() < 0.98
    far = transport_plan(1e6 * costs + 1e6, reg=0.1, tau=0.05, reference="outer")
    assert torch.isfinite(far).all() and far.sum() < 1e-6  # nothing is worth its way


@pytest.mark.parametrize("reference", ["outer", "diag"])
def test_the_gradient_goes_through_the_costs_only(reference) -> None:
    x, y = samples(6, 6, 3)
    costs = pair_costs(x, y, x, y, feature_cost=0.01, label_cost=0.05).requires_grad_()
    loss = transport_loss(costs, reg=0.1, tau=0.05, reference=reference)
    loss.backward()
    plan = transport_plan(costs, reg=0.1, tau=0.05, reference=reference)
    torch.testing.assert_close(costs.grad, plan)
    assert loss.item() == pytest.approx(float((plan * costs.detach()).sum()))
