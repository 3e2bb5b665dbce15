"""The minimiser with several source domains: within each, then between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from beacon.weighting.convex import convex_update
from beacon.weighting.multisource_convex import minimise_shares, multisource_convex_update
from beacon.weighting.objective import TARGET, Strengths

STRENGTHS = Strengths(lambda_d=1.0, lambda_1=0.01, lambda_2=0.1, rho_1=0.01, rho_2=0.01)
TARGETS = 20


def solve(costs: list[np.ndarray], q_max: float = 5.0, on_target: float = 2.0, **more):
    """Source domains with these costs, and a target at no cost; the weights sum to n + m/2."""
    sizes = [len(one) for one in costs]
    source = np.r_[np.repeat(np.arange(len(costs)), sizes), np.full(TARGETS, TARGET)]
    lower = np.where(source == TARGET, 0.05, 0.0)
    upper = np.where(source == TARGET, on_target, q_max)
    p0 = np.where(source == TARGET, 1.0 / TARGETS, 0.0)
    everything = np.r_[np.concatenate(costs), np.zeros(TARGETS)]
    budget = TARGETS + 0.5 * sum(sizes)
    arguments = (lower, upper, budget, STRENGTHS)
    levels, solution = multisource_convex_update(everything, p0, source, len(costs), *arguments, **more)
    return levels, solution.q, source, convex_update(everything, p0, *arguments).q, (lower, upper, budget)


def costs_of(count: int, level: float, seed: int) -> np.ndarray:
    return np.clip(level + 0.2 * np.random.default_rng(seed).normal(size=count), 0.0, None)


def test_domains_at_the_same_cost_are_one_domain() -> None:
    mine = costs_of(100, 1.0, 0)
    levels, q, _, pooled, _ = solve([mine, mine.copy()])
    np.testing.assert_allclose(levels.w, 0.5)
    np.testing.assert_allclose(q, pooled, atol=1e-9)


def test_mass_follows_the_domain_weights() -> None:
    levels, q, source, _, _ = solve([costs_of(150, 1.0, 0), costs_of(150, 1.05, 1), costs_of(150, 1.1, 2)])
    mass = np.array([q[source == k].sum() for k in range(3)])
    np.testing.assert_allclose(levels.w, mass / mass.sum())
    assert levels.w[0] > levels.w[1] > levels.w[2] > 0
    np.testing.assert_allclose(levels.composite(source), q)


@pytest.mark.parametrize(("w_min", "least"), [(0.0, 0.0), (0.25, 0.25)])
def test_a_domain_that_costs_much_more_fades_to_the_floor(w_min: float, least: float) -> None:
    levels, q, source, _, _ = solve([costs_of(150, 1.0, 0), costs_of(150, 3.0, 1)], w_min=w_min)
    assert levels.w[1] == pytest.approx(least)
    assert q[source == 0].std() > 0  # within a domain they differ all the same


def test_few_samples_do_not_get_half_of_everything() -> None:
    levels, q, source, _, _ = solve([costs_of(300, 1.0, 0), costs_of(10, 1.0, 1)])
    assert 0 < levels.w[1] < 0.2
    assert q[source == 1].mean() < 5 * q[source == 0].mean()


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    spread=st.floats(0.0, 3.0),
    q_max=st.floats(0.6, 5.0),
    w_min=st.floats(0.0, 0.25),
    seed=st.integers(0, 100),
)
def test_bounds_and_budget_hold(sizes, spread: float, q_max: float, w_min: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = [costs_of(size, spread * rng.uniform(), seed + k) for k, size in enumerate(sizes)]
    levels, q, source, _, (lower, upper, budget) = solve(costs, q_max=q_max, w_min=w_min)
    assert (q >= lower - 1e-9).all() and (q <= upper + 1e-7).all()
    assert q.sum() == pytest.approx(budget)
    assert levels.w.sum() == pytest.approx(1.0) and (levels.w >= 0).all()
    np.testing.assert_allclose(levels.composite(source), q, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_the_minimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    costs, curvature = rng.uniform(0, 1, count), rng.uniform(0.05, 2.0, count)
    rho_1, lower, upper = float(rng.uniform(0, 0.2)), np.full(count, 0.02), rng.uniform(0.5, 1.0, count)

    def value(w: np.ndarray) -> float:
        return float(w @ costs + rho_1 * np.abs(w - 1 / count).sum() + curvature @ w**2)

    found = minimise_shares(costs, curvature, rho_1, lower, upper)
    assert found.sum() == pytest.approx(1.0)
    best = minimize(
        value,
        np.full(count, 1 / count),
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert value(found) <= best.fun + 1e-7
