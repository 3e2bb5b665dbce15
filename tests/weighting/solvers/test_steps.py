from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.weighting import Steps, Strengths, WeightProblem, Weights, project_budget, stochastic_steps

STRENGTHS = Strengths(0.1, 0.01, 0.01)


def start(
    sources: int = 30, targets: int = 6, seed: int = 0, strengths: Strengths = STRENGTHS
) -> tuple[np.ndarray, WeightProblem]:
    """Weights, and a problem in which they may move."""
    rng = np.random.default_rng(seed)
    size = sources + targets
    on_target = np.arange(size) >= sources
    q = rng.uniform(0.1, 1.5, size)
    costs = rng.random(size)
    p0 = np.where(on_target, 1 / targets, 0.0)
    lower, upper = np.where(on_target, 0.05, 0.0), np.full(size, 5.0)
    return q, WeightProblem(costs, p0, lower, upper, targets + 0.5 * sources, strengths)


def test_one_step_as_written() -> None:
    q, problem = start(strengths=Strengths(0.1, lambda_1=0.02, lambda_2=0.03, gamma=1e-2))
    gradient = problem.costs + 0.02 * np.sign(q - problem.p0) + 0.06 * q
    gradient[np.argmax(q)] += 1e-2 * 40.0
    clipped = np.clip(q - 0.5 * gradient, problem.lower, problem.upper)
    expected = project_budget(clipped, problem.budget, problem.lower, problem.upper)
    updated, _ = stochastic_steps(replace(problem, capacity=40.0), q, eta=0.5)
    np.testing.assert_allclose(updated, expected, atol=1e-14)


def test_direct_projection_gives_true_zeros_and_the_paper_never_does() -> None:
    q, problem = start(strengths=Strengths(0.1, 0.0, 0.01))
    problem = replace(problem, costs=20 * problem.costs)
    clipped, direct = (
        stochastic_steps(problem, q, eta=0.05, steps=20, projection=choice)[0]
        for choice in ("clip", "direct")
    )
    assert (clipped > 0).all()
    assert (direct == 0).sum() > 3
    assert clipped.sum() == pytest.approx(problem.budget) and direct.sum() == pytest.approx(problem.budget)


def test_the_input_is_left_alone() -> None:
    q, problem = start()
    before = q.copy(), problem.costs.copy()
    stochastic_steps(problem, q, eta=0.01, steps=3)
    assert np.array_equal(q, before[0]) and np.array_equal(problem.costs, before[1])


@given(st.integers(0, 10_000), st.floats(0, 2), st.integers(1, 4), st.sampled_from(["clip", "direct"]))
@settings(max_examples=100, deadline=None)
def test_weights_stay_feasible(seed: int, eta: float, steps: int, projection) -> None:
    q, problem = start(seed=seed, strengths=Strengths(0.1, 0.01, 0.01, 1e-3))
    new, _ = stochastic_steps(replace(problem, capacity=9.0), q, eta=eta, steps=steps, projection=projection)
    assert (new >= problem.lower).all() and (new <= problem.upper).all()
    assert new.sum() == pytest.approx(problem.budget, rel=1e-12)


def test_direct_steps_descend_to_the_optimum() -> None:
    q, problem = start(strengths=Strengths(0.1, 0.0, lambda_2=0.5))
    new, _ = stochastic_steps(problem, q, eta=0.5, steps=300, projection="direct")
    # λ1 = 0: the minimiser is a plain projection
    best = project_budget(-problem.costs / (2 * 0.5), problem.budget, problem.lower, problem.upper)
    np.testing.assert_allclose(new, best, atol=1e-12)


# The solver


@pytest.mark.parametrize("refreshes", [1, 2, 6, 7, 60, 599, 600, 1200, 5000])
def test_auto_steps_travel_the_same_way_in_small_steps(refreshes: int) -> None:
    plan = [Steps().schedule(number, refreshes) for number in range(refreshes)]
    assert math.isclose(sum(steps * eta for steps, eta in plan), 6.0, abs_tol=0.0101)
    assert max(eta for _, eta in plan) <= 0.01 + 1e-12
    if refreshes > 1:
        assert plan[0][0] == 1  # nothing is known yet
    if refreshes >= 600:
        assert plan == [(1, 6.0 / refreshes)] * refreshes


@pytest.mark.parametrize("refreshes", [1, 7, 600])
def test_a_step_size_that_is_given_is_the_literal_algorithm(refreshes: int) -> None:
    assert {Steps(eta_q=0.02).schedule(number, refreshes) for number in range(refreshes)} == {(1, 0.02)}


@pytest.mark.parametrize("projection", ["clip", "direct"])
def test_the_solver_takes_the_steps_of_its_schedule(projection) -> None:
    q, problem = start()
    solver = Steps(projection=projection)
    count, eta = solver.schedule(3, 7)
    expected, shift = stochastic_steps(problem, q, eta=eta, steps=count, projection=projection)
    weights = solver.solve(problem, Weights(q, np.ones(1), q), refresh=3, planned=7)
    np.testing.assert_array_equal(weights.q, expected)
    assert weights.shift == shift and count > 1
    assert not Steps.is_exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta_q": "fast"}, "eta_q: must be 'auto' or a number"),
        ({"eta_q": -0.1}, "eta_q: must be 'auto' or a number"),
        ({"eta_w": math.nan}, "eta_w: must be a number of at least 0"),
        ({"eta_t": -1.0}, "eta_t: must be None or a number of at least 0"),
        ({"projection": "none"}, "projection: must be 'clip' or 'direct'"),
        ({"w_gradient": "median"}, "w_gradient: must be 'mean' or 'sum'"),
        ({"cap": "none"}, "cap: must be 'scaled' or 'box'"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Steps(**options)


def test_auto_keeps_the_ranking_that_one_large_step_erases() -> None:
    _, problem = start(sources=2000, targets=80)
    costs = np.random.default_rng(1).normal(1.0, 0.1, problem.costs.size)
    problem = replace(problem, costs=costs)
    spread = {}
    for name, steps, eta in (("small", 100, 0.01), ("large", 1, 1.0)):
        q = problem.p0
        for _ in range(6):
            q, _ = stochastic_steps(problem, q, eta=eta, steps=steps)
        spread[name] = q[:2000].std()
        if name == "small":
            assert np.corrcoef(q[:2000], -costs[:2000])[0, 1] > 0.95
    assert spread["small"] > 3 * spread["large"]


def test_the_papers_weight_evolution() -> None:
    """The weights of the paper's appendix F, from its defaults with d ~ N(2.5, 0.55), 600 sweeps.

    The numbers of windows, and the means after the first sweep, come from the authors' public figure.

    One noise draw per sample and sweep makes a loss about as noisy as it is large, hence the exponential.
    """
    sources, targets = 54_821, 2_267
    rng = np.random.default_rng(0)
    on_target = np.arange(sources + targets) >= sources
    d = np.where(on_target, 0.0, rng.normal(2.5, 0.55, on_target.size))
    p0 = np.where(on_target, 1 / targets, 0.0)
    lower, upper = np.where(on_target, 0.05, 0.0), np.full(on_target.size, 5.0)
    strengths = Strengths(0.1, 0.01, 0.01, 1e-6)
    q = p0
    for sweep in range(600):
        costs = rng.exponential(0.27, q.size) + 0.1 * d
        problem = WeightProblem(costs, p0, lower, upper, targets + 0.5 * sources, strengths, capacity=100.0)
        q, _ = stochastic_steps(problem, q, eta=0.01)
        if sweep == 0:  # the first projection lifts everything by the same amount
            assert q[on_target].mean() == pytest.approx(0.5679, abs=1e-3)
            assert q[~on_target].mean() == pytest.approx(0.5179, abs=1e-3)
    assert q[on_target].mean() == pytest.approx(1.904, abs=0.01)
    assert q[on_target].std() == pytest.approx(0.063, abs=0.003)
    assert q[~on_target].mean() == pytest.approx(0.463, abs=0.001)
    assert q[~on_target].std() == pytest.approx(0.296, abs=0.005)
    assert 0 < q.min() < 0.01  # clip, then project: nothing is ever exactly zero
