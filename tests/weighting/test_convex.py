from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from beacon.weighting import BudgetWarning, Strengths, convex_update, objective_terms

Array = NDArray[np.float64]


def random_problem(seed: int, size: int = 24):
    """Floors on some, ties in every third, references of all kinds."""
    rng = np.random.default_rng(seed)
    on_target = rng.random(size) < 0.25
    costs = rng.random(size).round(1 if seed % 3 == 0 else 9)
    p0 = rng.choice([0.0, 0.3, 1.0, 6.0], size=size) if seed % 2 else np.where(on_target, 0.2, 0.0)
    lower = np.where(on_target, 0.05, 0.0)
    upper = np.full(size, 5.0)
    if seed % 5 == 0:
        upper = rng.choice([0.05, 1.0, 5.0], size=size)
    budget = rng.uniform(lower.sum(), upper.sum())
    strengths = Strengths(
        0.1, lambda_1=rng.choice([0.0, 0.01, 0.2]), lambda_2=rng.choice([0.01, 0.1, 1.0]), gamma=1e-2
    )
    capacity = float(rng.choice([0.0, 5.0, 100.0, 3000.0]))
    return costs, p0, lower, upper, budget, strengths, capacity


def value(q: Array, costs: Array, p0: Array, strengths: Strengths, capacity: float) -> float:
    return objective_terms(q, costs, np.zeros_like(q), p0, strengths, capacity).total


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_cvxpy(seed: int) -> None:
    costs, p0, lower, upper, budget, strengths, capacity = random_problem(seed)
    found = convex_update(costs, p0, lower, upper, budget, strengths, capacity=capacity).q
    q = cp.Variable(costs.size)
    objective = (
        costs @ q
        + strengths.gamma * capacity * cp.norm_inf(q)
        + strengths.lambda_1 * cp.norm1(q - p0)
        + strengths.lambda_2 * cp.sum_squares(q)
    )
    problem = cp.Problem(cp.Minimize(objective), [q >= lower, q <= upper, cp.sum(q) == budget])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert (found >= lower).all() and (found <= upper).all()
    assert found.sum() == pytest.approx(budget, rel=1e-12)
    assert value(found, costs, p0, strengths, capacity) <= problem.value + 1e-7 * (1 + abs(problem.value))
    np.testing.assert_allclose(found, q.value, atol=2e-4)


@pytest.mark.parametrize("seed", range(12))
def test_the_slope_finds_the_cap_of_the_papers_ternary_search(seed: int) -> None:
    costs, p0, lower, upper, budget, strengths, _ = random_problem(seed)
    by_slope, by_thirds = (
        convex_update(costs, p0, lower, upper, budget, strengths, capacity=300.0, search=search).q
        for search in ("slope", "ternary")
    )
    slope, thirds = (value(q, costs, p0, strengths, 300.0) for q in (by_slope, by_thirds))
    assert slope == pytest.approx(thirds, abs=1e-5)


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_no_feasible_move_between_two_weights_helps(seed: int) -> None:
    costs, p0, lower, upper, budget, strengths, _ = random_problem(seed)
    q = convex_update(costs, p0, lower, upper, budget, strengths).q
    best = value(q, costs, p0, strengths, 0.0)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        i, j = rng.choice(q.size, 2, replace=False)
        step = min(rng.choice([1e-4, 0.1, 1.0]), q[i] - lower[i], upper[j] - q[j])
        moved = q.copy()
        moved[i] -= step
        moved[j] += step
        assert value(moved, costs, p0, strengths, 0.0) >= best - 1e-10


def test_large_problem_meets_the_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    size = 60_000
    costs, lower = rng.normal(0.3, 0.1, size), np.where(np.arange(size) % 25 == 0, 0.05, 0.0)
    p0, upper = np.where(lower > 0, 25 / size, 0.0), np.full(size, 5.0)
    strengths = Strengths(0.1, 0.01, 0.01)
    solution = convex_update(costs, p0, lower, upper, 0.5 * size, strengths)
    q = solution.q
    slope = costs + 0.01 * np.sign(q - p0) + 0.02 * q - solution.multiplier
    free = (q > lower) & (q < upper)
    assert np.abs(slope[free]).max() < 1e-10
    assert slope[(q == upper)].max() < 1e-10
    assert slope[(q == lower) & (lower > p0)].min() > -1e-10
    assert q.sum() == pytest.approx(0.5 * size, rel=1e-13)
    assert (q == 0).mean() > 0.5  # the exact minimiser is sparse where the stochastic one is not


def test_lambda_2_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="lambda_2"):
        convex_update(np.ones(3), np.ones(3), np.zeros(3), np.ones(3), 1.0, Strengths(0.1, 0.01, 0.0))


def test_an_impossible_budget_is_clamped() -> None:
    with pytest.warns(BudgetWarning):
        found = convex_update(np.ones(3), np.ones(3), np.zeros(3), np.ones(3), 9.0, Strengths(0.1, 0.01, 0.1))
    np.testing.assert_allclose(found.q, 1.0)
