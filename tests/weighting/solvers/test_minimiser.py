from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from beacon.weighting import (
    BudgetWarning,
    Minimiser,
    Strengths,
    WeightProblem,
    Weights,
    minimise,
    objective_terms,
)

Array = NDArray[np.float64]


def random_problem(seed: int, size: int = 24) -> WeightProblem:
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
    return WeightProblem(costs, p0, lower, upper, budget, strengths, capacity)


def value(q: Array, problem: WeightProblem) -> float:
    nowhere = np.zeros_like(q)
    return objective_terms(q, problem.costs, nowhere, problem.p0, problem.strengths, problem.capacity).total


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_cvxpy(seed: int) -> None:
    problem = random_problem(seed)
    strengths, lower, upper = problem.strengths, problem.lower, problem.upper
    solution = minimise(problem).q
    q = cp.Variable(problem.costs.size)
    objective = (
        problem.costs @ q
        + strengths.gamma * problem.capacity * cp.norm_inf(q)
        + strengths.lambda_1 * cp.norm1(q - problem.p0)
        + strengths.lambda_2 * cp.sum_squares(q)
    )
    oracle = cp.Problem(cp.Minimize(objective), [q >= lower, q <= upper, cp.sum(q) == problem.budget])
    oracle.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert (solution >= lower).all() and (solution <= upper).all()
    assert solution.sum() == pytest.approx(problem.budget, rel=1e-12)
    assert value(solution, problem) <= oracle.value + 1e-7 * (1 + abs(oracle.value))
    np.testing.assert_allclose(solution, q.value, atol=2e-4)


@pytest.mark.parametrize("seed", range(12))
def test_the_slope_finds_the_cap_of_the_papers_ternary_search(seed: int) -> None:
    problem = replace(random_problem(seed), capacity=300.0)
    slope, thirds = (value(minimise(problem, search=search).q, problem) for search in ("slope", "ternary"))
    assert slope == pytest.approx(thirds, abs=1e-5)


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_no_feasible_move_between_two_weights_helps(seed: int) -> None:
    problem = replace(random_problem(seed), capacity=0.0)
    lower, upper = problem.lower, problem.upper
    q = minimise(problem).q
    best = value(q, problem)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        i, j = rng.choice(q.size, 2, replace=False)
        step = min(rng.choice([1e-4, 0.1, 1.0]), q[i] - lower[i], upper[j] - q[j])
        moved = q.copy()
        moved[i] -= step
        moved[j] += step
        assert value(moved, problem) >= best - 1e-10


def test_large_problem_meets_the_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    size = 60_000
    costs, lower = rng.normal(0.3, 0.1, size), np.where(np.arange(size) % 25 == 0, 0.05, 0.0)
    p0, upper = np.where(lower > 0, 25 / size, 0.0), np.full(size, 5.0)
    solution = minimise(WeightProblem(costs, p0, lower, upper, 0.5 * size, Strengths(0.1, 0.01, 0.01)))
    q = solution.q
    slope = costs + 0.01 * np.sign(q - p0) + 0.02 * q - solution.multiplier
    free = (q > lower) & (q < upper)
    assert np.abs(slope[free]).max() < 1e-10
    assert slope[(q == upper)].max() < 1e-10
    assert slope[(q == lower) & (lower > p0)].min() > -1e-10
    assert q.sum() == pytest.approx(0.5 * size, rel=1e-13)
    assert (q == 0).mean() > 0.5  # the exact minimiser is sparse where steps are not


def three(budget: float, lambda_2: float) -> WeightProblem:
    return WeightProblem(
        np.ones(3), np.ones(3), np.zeros(3), np.ones(3), budget, Strengths(0.1, 0.01, lambda_2)
    )


def test_lambda_2_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="lambda_2"):
        minimise(three(1.0, lambda_2=0.0))
    with pytest.raises(ValueError, match="lambda_2: must be above 0 for the minimiser"):
        Minimiser().require(lambda_2=0.0)


def test_an_impossible_budget_is_clamped() -> None:
    with pytest.warns(BudgetWarning):
        solution = minimise(three(9.0, lambda_2=0.1))
    np.testing.assert_allclose(solution.q, 1.0)


# The solver


def anywhere(problem: WeightProblem, seed: int) -> Weights:
    q = np.random.default_rng(seed).random(problem.costs.size)
    return Weights(q, np.ones(1), q)


@pytest.mark.parametrize("seed", range(4))
def test_the_solver_gives_the_minimiser_wherever_the_weights_were(seed: int) -> None:
    problem = random_problem(seed)
    expected = minimise(problem)
    for refresh in (0, 7):
        weights = Minimiser().solve(problem, anywhere(problem, refresh), refresh, planned=10)
        np.testing.assert_array_equal(weights.q, expected.q)
        assert weights.shift == expected.multiplier
    assert Minimiser.is_exact


@pytest.mark.parametrize(("scale", "divided"), [(0.5, False), (8.0, True)])
def test_costs_are_divided_by_their_maximum_where_it_exceeds_one(scale: float, divided: bool) -> None:
    problem = random_problem(1)
    problem = replace(problem, costs=scale * problem.costs / problem.costs.max())
    now = anywhere(problem, 0)
    divided_costs = replace(problem, costs=problem.costs / scale) if divided else problem
    weights = Minimiser(normalize_cost=True).solve(problem, now, 0, 1).q
    np.testing.assert_allclose(weights, minimise(divided_costs).q, atol=1e-12)
    if divided:
        assert np.abs(weights - Minimiser().solve(problem, now, 0, 1).q).max() > 0.01
