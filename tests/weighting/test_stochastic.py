from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.weighting import Strengths, WeightingConfig, project_budget, stochastic_update


def start(sources: int = 30, targets: int = 6, seed: int = 0):
    rng = np.random.default_rng(seed)
    size = sources + targets
    on_target = np.arange(size) >= sources
    q = rng.uniform(0.1, 1.5, size)
    costs = rng.random(size)
    p0 = np.where(on_target, 1 / targets, 0.0)
    lower, upper = np.where(on_target, 0.05, 0.0), np.full(size, 5.0)
    return q, costs, p0, lower, upper, targets + 0.5 * sources


def test_one_step_as_written() -> None:
    q, costs, p0, lower, upper, budget = start()
    strengths = Strengths(0.1, lambda_1=0.02, lambda_2=0.03, gamma=1e-2)
    gradient = costs + 0.02 * np.sign(q - p0) + 0.06 * q
    gradient[np.argmax(q)] += 1e-2 * 40.0
    expected = project_budget(np.clip(q - 0.5 * gradient, lower, upper), budget, lower, upper)
    updated, _ = stochastic_update(q, costs, p0, lower, upper, budget, strengths, eta=0.5, capacity=40.0)
    np.testing.assert_allclose(updated, expected, atol=1e-14)


def test_direct_projection_gives_true_zeros_and_the_paper_never_does() -> None:
    q, costs, p0, lower, upper, budget = start()
    costs = 20 * costs
    strengths = Strengths(0.1, 0.0, 0.01)
    clipped, direct = (
        stochastic_update(
            q, costs, p0, lower, upper, budget, strengths, eta=0.05, steps=20, projection=choice
        )[0]
        for choice in ("clip", "direct")
    )
    assert (clipped > 0).all()
    assert (direct == 0).sum() > 3
    assert clipped.sum() == pytest.approx(budget) and direct.sum() == pytest.approx(budget)


def test_the_input_is_left_alone() -> None:
    q, costs, *rest = start()
    before = q.copy(), costs.copy()
    stochastic_update(q, costs, *rest, Strengths(0.1, 0.01, 0.01), eta=0.01, steps=3)
    assert np.array_equal(q, before[0]) and np.array_equal(costs, before[1])


@given(st.integers(0, 10_000), st.floats(0, 2), st.integers(1, 4), st.sampled_from(["clip", "direct"]))
@settings(max_examples=100, deadline=None)
def test_weights_stay_feasible(seed: int, eta: float, steps: int, projection) -> None:
    q, costs, p0, lower, upper, budget = start(seed=seed)
    strengths = Strengths(0.1, 0.01, 0.01, 1e-3)
    new, _ = stochastic_update(
        q,
        costs,
        p0,
        lower,
        upper,
        budget,
        strengths,
        eta=eta,
        steps=steps,
        capacity=9.0,
        projection=projection,
    )
    assert (new >= lower).all() and (new <= upper).all()
    assert new.sum() == pytest.approx(budget, rel=1e-12)


def test_direct_steps_descend_to_the_optimum() -> None:
    q, costs, p0, lower, upper, budget = start()
    strengths = Strengths(0.1, 0.0, lambda_2=0.5)
    new, _ = stochastic_update(
        q, costs, p0, lower, upper, budget, strengths, eta=0.5, steps=300, projection="direct"
    )
    best = project_budget(-costs / (2 * 0.5), budget, lower, upper)  # λ1 = 0: a plain projection
    np.testing.assert_allclose(new, best, atol=1e-12)


@pytest.mark.parametrize("refreshes", [1, 2, 6, 7, 60, 599, 600, 1200, 5000])
def test_auto_steps_travel_the_same_way_in_small_steps(refreshes: int) -> None:
    plan = [WeightingConfig().steps(number, refreshes) for number in range(refreshes)]
    assert math.isclose(sum(steps * eta for steps, eta in plan), 6.0, abs_tol=0.0101)
    assert max(eta for _, eta in plan) <= 0.01 + 1e-12
    if refreshes > 1:
        assert plan[0][0] == 1  # nothing is known yet
    if refreshes >= 600:
        assert plan == [(1, 6.0 / refreshes)] * refreshes


def test_auto_keeps_the_ranking_that_one_large_step_erases() -> None:
    q, _, p0, lower, upper, budget = start(sources=2000, targets=80)
    costs = np.random.default_rng(1).normal(1.0, 0.1, q.size)
    strengths = Strengths(0.1, 0.01, 0.01)
    spread = {}
    for name, steps, eta in (("small", 100, 0.01), ("large", 1, 1.0)):
        q = p0
        for _ in range(6):
            q, _ = stochastic_update(q, costs, p0, lower, upper, budget, strengths, eta=eta, steps=steps)
        spread[name] = q[:2000].std()
        if name == "small":
            assert np.corrcoef(q[:2000], -costs[:2000])[0, 1] > 0.95
    assert spread["small"] > 3 * spread["large"]


def test_the_papers_weight_evolution() -> None:
    """The weights of the paper's appendix F, from its sizes and defaults with d ~ N(2.5, 0.55), 600 sweeps.

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
        q, _ = stochastic_update(
            q, costs, p0, lower, upper, targets + 0.5 * sources, strengths, eta=0.01, capacity=100.0
        )
        if sweep == 0:  # the first projection lifts everything by the same amount
            assert q[on_target].mean() == pytest.approx(0.5679, abs=1e-3)
            assert q[~on_target].mean() == pytest.approx(0.5179, abs=1e-3)
    assert q[on_target].mean() == pytest.approx(1.904, abs=0.01)
    assert q[on_target].std() == pytest.approx(0.063, abs=0.003)
    assert q[~on_target].mean() == pytest.approx(0.463, abs=0.001)
    assert q[~on_target].std() == pytest.approx(0.296, abs=0.005)
    assert 0 < q.min() < 0.01  # clip, then project: nothing is ever exactly zero
