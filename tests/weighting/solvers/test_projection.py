from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from beacon.weighting import BudgetWarning, project_budget, project_budget_bisection, project_simplex
from beacon.weighting.chunks import CHUNK
from beacon.weighting.solvers.breakpoints import SORTABLE

Problem = tuple[NDArray[np.float64], float, NDArray[np.float64], NDArray[np.float64]]
EXACT = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
NUMBERS = st.floats(-100, 100, allow_nan=False, width=32)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A feasible projection problem; ties, equal bounds, infinite bounds and extreme budgets are likely."""
    size = draw(st.integers(1, 30))
    entries = draw(st.sampled_from([NUMBERS, st.integers(-3, 3).map(float)]))
    x = np.array(draw(st.lists(entries, min_size=size, max_size=size)))
    lower = np.array(draw(st.lists(st.sampled_from([0.0, 0.05, -1.0, 0.5]), min_size=size, max_size=size)))
    widths = st.sampled_from([0.0, 0.3, 1.0, 5.0])
    upper = lower + np.array(draw(st.lists(widths, min_size=size, max_size=size)))
    if draw(st.booleans()):
        upper = np.full(size, math.inf)
    most = min(float(upper.sum()), float(lower.sum()) + 50.0)
    budget = float(lower.sum()) + draw(st.sampled_from([0.0, 0.01, 0.5, 0.9, 1.0])) * (
        most - float(lower.sum())
    )
    return x, budget, lower, upper


def assert_optimal(q: NDArray[np.float64], problem: Problem) -> None:
    """The KKT conditions: feasible, and x − q is ν where free, at most ν below and at least ν above."""
    x, budget, lower, upper = problem
    size = 1.0 + float(np.abs(x).max())
    assert np.all(q >= lower) and np.all(q <= upper)
    assert math.isclose(q.sum(), budget, rel_tol=1e-13, abs_tol=1e-13 * size * len(x))
    moved = x - q  # ν at free coordinates, ≥ ν at the upper bound, ≤ ν at the lower one
    open_below, open_above = q > lower, q < upper
    tolerance = 1e-12 * size
    if open_below.any() and open_above.any():
        assert moved[open_above].max() <= moved[open_below].min() + tolerance


@given(problems())
@settings(max_examples=400, deadline=None)
def test_projection_is_feasible_optimal_and_idempotent(problem: Problem) -> None:
    x, budget, lower, upper = problem
    q = project_budget(x, budget, lower, upper)
    assert_optimal(q, problem)
    again = project_budget(q, budget, lower, upper)
    np.testing.assert_allclose(again, q, rtol=0, atol=1e-13 * (1 + np.abs(x).max()))


@given(problems())
@settings(max_examples=200, deadline=None)
def test_projection_agrees_with_the_papers_bisection(problem: Problem) -> None:
    x, budget, lower, upper = problem
    reference = project_budget_bisection(x, budget, lower, upper, steps=200)
    np.testing.assert_allclose(project_budget(x, budget, lower, upper), reference, atol=1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_projection_agrees_with_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 25
    x = rng.normal(size=size).round(1 if seed % 3 == 0 else 9)  # every third problem has ties
    lower = np.where(rng.random(size) < 0.3, 0.05, 0.0)
    upper = lower + rng.choice([0.0, 0.5, 5.0], size=size)
    budget = rng.uniform(lower.sum(), upper.sum())
    q = cp.Variable(size)
    constraints = [q >= lower, q <= upper, cp.sum(q) == budget]
    cp.Problem(cp.Minimize(cp.sum_squares(q - x)), constraints).solve(**EXACT)
    np.testing.assert_allclose(project_budget(x, budget, lower, upper), q.value, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lower", [0.0, 0.05])
def test_simplex_projection_agrees_with_cvxpy(seed: int, lower: float) -> None:
    x = np.random.default_rng(seed).normal(size=8)
    w = cp.Variable(8)
    cp.Problem(cp.Minimize(cp.sum_squares(w - x)), [w >= lower, cp.sum(w) == 1]).solve(**EXACT)
    np.testing.assert_allclose(project_simplex(x, lower=lower), w.value, atol=1e-6)


def test_simplex_projection_by_the_sorting_rule() -> None:
    x = np.random.default_rng(0).normal(size=50)
    u = np.sort(x)[::-1]
    sums = np.cumsum(u) - 1.0
    last = int(np.nonzero(u - sums / np.arange(1, 51) > 0)[0][-1])
    np.testing.assert_allclose(project_simplex(x), np.maximum(x - sums[last] / (last + 1), 0), atol=1e-14)


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).normal(0.5, 0.4, 50_000),
        np.random.default_rng(0).standard_cauchy(50_000),
        np.zeros(50_000),
        np.repeat([0.0, 1.0, 2.0], 20_000),
        np.r_[np.zeros(60_000), 1e6],
        np.sort(np.random.default_rng(0).lognormal(0, 3, 50_000)),
    ],
    ids=["normal", "heavy tails", "all equal", "three values", "one outlier", "sorted lognormal"],
)
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.3, 0.999, 1.0])
def test_long_vectors_are_projected_exactly(x: NDArray[np.float64], share: float) -> None:
    assert x.size > SORTABLE  # so that sampling is at work
    lower = np.where(np.arange(x.size) % 25 == 0, 0.05, 0.0)
    upper = np.full(x.size, 5.0)
    budget = lower.sum() + share * (upper.sum() - lower.sum())
    assert_optimal(project_budget(x, budget, lower, upper), (x, budget, lower, upper))


def test_a_misleading_sample_is_noticed() -> None:
    # All that matters sits in a handful of coordinates that a sample is sure to miss.
    x = np.zeros(200_000)
    x[:3] = 50.0
    upper = np.full(x.size, 1e-9)
    upper[:3] = 100.0
    problem = (x, 60.0, np.zeros(x.size), upper)
    assert_optimal(project_budget(*problem), problem)


def test_vectors_of_several_chunks_are_projected_exactly() -> None:
    x = np.random.default_rng(0).normal(size=2 * CHUNK + 5)
    problem = (x, 1e5, np.zeros(x.size), np.full(x.size, 5.0))
    assert_optimal(project_budget(*problem), problem)


@pytest.mark.parametrize(("budget", "expected"), [(-3.0, 0.0), (99.0, 6.0)])
@pytest.mark.parametrize("project", [project_budget, project_budget_bisection])
def test_an_impossible_budget_is_clamped_with_a_warning(project, budget: float, expected: float) -> None:
    with pytest.warns(BudgetWarning, match=r"outside what the bounds allow, \[0, 6\]"):
        q = project(np.array([1.0, 2.0, 3.0]), budget, 0.0, 2.0)
    assert q.sum() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, math.nan], 1.0), r"x\[1\] = nan is not finite"),
        (([], 1.0), "x: expected a vector with at least one entry"),
        (([1.0, 2.0], 1.0, [0.0, 3.0], 2.0), r"lower\[1\] = 3.0 exceeds upper\[1\] = 2.0"),
        (([1.0, 2.0], 1.0, [0.0, 0.0, 0.0]), "lower: expected a number or shape"),
        (([1.0, 2.0], 1.0, math.nan), r"lower\[0\] = nan is not a number"),
        (([1.0, 2.0], math.nan), "budget: must be a finite number"),
    ],
)
def test_bad_input_is_named(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        project_budget(*arguments)
