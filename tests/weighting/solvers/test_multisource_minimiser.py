"""The minimiser with several source domains: within each, then between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from beacon.weighting import Strengths, WeightProblem, Weights
from beacon.weighting.objective import TARGET
from beacon.weighting.problem import domain_scale
from beacon.weighting.solvers.minimiser import Minimiser, minimise
from beacon.weighting.solvers.multisource_minimiser import minimise_several, minimise_shares

STRENGTHS = Strengths(lambda_d=1.0, lambda_1=0.01, lambda_2=0.1, rho_1=0.01, rho_2=0.01)
TARGETS = 20


def make_problem(
    costs: list[np.ndarray], q_max: float = 5.0, on_target: float = 2.0, w_min: float = 0.0
) -> WeightProblem:
    """Source domains with these costs, and a target at no cost; the weights sum to n + m/2."""
    sizes = [len(of_domain) for of_domain in costs]
    source = np.r_[np.repeat(np.arange(len(costs)), sizes), np.full(TARGETS, TARGET)]
    return WeightProblem(
        costs=np.r_[np.concatenate(costs), np.zeros(TARGETS)],
        p0=np.where(source == TARGET, 1.0 / TARGETS, 0.0),
        lower=np.where(source == TARGET, 0.05, 0.0),
        upper=np.where(source == TARGET, on_target, q_max),
        budget=TARGETS + 0.5 * sum(sizes),
        strengths=STRENGTHS,
        source=source,
        domains=len(costs),
        w_min=w_min,
    )


def solve(costs: list[np.ndarray], **more) -> tuple[Weights, np.ndarray]:
    """The weights, and the domain of every sample."""
    problem = make_problem(costs, **more)
    return minimise_several(problem), problem.source


def costs_of(count: int, level: float, seed: int) -> np.ndarray:
    return np.clip(level + 0.2 * np.random.default_rng(seed).normal(size=count), 0.0, None)


def test_domains_at_the_same_cost_are_one_domain() -> None:
    costs = costs_of(100, 1.0, 0)
    problem = make_problem([costs, costs.copy()])
    weights = minimise_several(problem)
    np.testing.assert_allclose(weights.w, 0.5)
    np.testing.assert_allclose(weights.q, minimise(problem).q, atol=1e-9)


@pytest.mark.parametrize("on_target", [0.5, 2.0, 5.0])
def test_one_domain_equals_the_single_source_path(on_target: float) -> None:
    problem = make_problem([costs_of(150, 1.0, 0)], on_target=on_target)
    weights = minimise_several(problem)
    np.testing.assert_allclose(weights.q, minimise(problem).q, atol=1e-9)
    assert weights.w.tolist() == [1.0]


def test_mass_follows_the_domain_weights() -> None:
    weights, source = solve([costs_of(150, 1.0, 0), costs_of(150, 1.05, 1), costs_of(150, 1.1, 2)])
    mass = np.array([weights.q[source == k].sum() for k in range(3)])
    np.testing.assert_allclose(weights.w, mass / mass.sum())
    assert weights.w[0] > weights.w[1] > weights.w[2] > 0
    np.testing.assert_allclose(domain_scale(weights.w, source) * weights.q_tilde, weights.q)


@pytest.mark.parametrize(("w_min", "least"), [(0.0, 0.0), (0.25, 0.25)])
def test_a_domain_that_costs_much_more_fades_to_the_floor(w_min: float, least: float) -> None:
    weights, source = solve([costs_of(150, 1.0, 0), costs_of(150, 3.0, 1)], w_min=w_min)
    assert weights.w[1] == pytest.approx(least)
    assert weights.q[source == 0].std() > 0  # within a domain they differ all the same


def test_few_samples_do_not_get_half_of_everything() -> None:
    weights, source = solve([costs_of(300, 1.0, 0), costs_of(10, 1.0, 1)])
    assert 0 < weights.w[1] < 0.2
    assert weights.q[source == 1].mean() < 5 * weights.q[source == 0].mean()


def test_a_domain_is_as_dear_as_the_mass_that_it_keeps() -> None:
    half_bad = np.r_[costs_of(75, 1.0, 1), np.full(75, 10.0)]
    weights, source = solve([costs_of(150, 1.0, 0), half_bad])
    q = weights.q
    assert (q[source == 1][75:] == 0).all()
    assert q[source == TARGET] == pytest.approx(2.0)  # not outbid by the sound half
    assert 0.3 < weights.w[1] < 0.5


def test_narrow_bounds_of_one_domain_do_not_warn() -> None:
    problem = make_problem([costs_of(30, 1.0, 0), costs_of(30, 1.0, 1)])
    narrow = np.where(problem.source == 1, 0.2, problem.upper)  # the other domain has room for the rest
    q = minimise_several(replace(problem, upper=narrow)).q
    assert q.sum() == pytest.approx(problem.budget) and (q <= narrow + 1e-9).all()


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
    problem = make_problem(costs, q_max=q_max, w_min=w_min)
    weights = minimise_several(problem)
    q, w = weights.q, weights.w
    assert (q >= problem.lower - 1e-9).all() and (q <= problem.upper + 1e-7).all()
    assert q.sum() == pytest.approx(problem.budget)
    assert w.sum() == pytest.approx(1.0) and (w >= 0).all()
    np.testing.assert_allclose(domain_scale(w, problem.source) * weights.q_tilde, q, atol=1e-12)


def test_the_solver_minimises_within_and_between_the_domains() -> None:
    problem = make_problem([costs_of(50, 1.0, 0), costs_of(50, 1.1, 1)])
    now = Weights.start(problem.p0, problem.source, 2)
    weights, expected = Minimiser().solve(problem, now, 3, 10), minimise_several(problem)
    np.testing.assert_array_equal(weights.q, expected.q)
    np.testing.assert_array_equal(weights.w, expected.w)


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_the_minimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    costs, curvature = rng.uniform(0, 1, count), rng.uniform(0.05, 2.0, count)
    rho_1, lower, upper = float(rng.uniform(0, 0.2)), np.full(count, 0.02), rng.uniform(0.5, 1.0, count)

    def value(w: np.ndarray) -> float:
        return float(w @ costs + rho_1 * np.abs(w - 1 / count).sum() + curvature @ w**2)

    shares = minimise_shares(costs, curvature, rho_1, lower, upper)
    assert shares.sum() == pytest.approx(1.0)
    best = minimize(
        value,
        np.full(count, 1 / count),
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert value(shares) <= best.fun + 1e-7
