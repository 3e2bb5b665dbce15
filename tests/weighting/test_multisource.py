from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beacon.weighting import (
    BudgetWarning,
    MultiSourceSteps,
    Strengths,
    TwoLevelWeights,
    multisource_update,
    project_budget,
    project_simplex,
    stochastic_update,
)
from beacon.weighting.multisource import start_two_level
from beacon.weighting.objective import TARGET

STRENGTHS = Strengths(0.1, 0.01, 0.01, 0.0, 0.01, 0.01)
STEPS = MultiSourceSteps(eta_q=0.01, eta_t=0.01, eta_w=0.05)


def problem(domains: int, per_domain: int = 40, targets: int = 8, seed: int = 0):
    rng = np.random.default_rng(seed)
    source = np.r_[np.repeat(np.arange(domains), per_domain), np.full(targets, TARGET)]
    p0 = np.where(source == TARGET, 1 / targets, 0.0)
    lower = np.where(source == TARGET, 0.05, 0.0)
    costs = rng.random(source.size)
    budget = targets + 0.5 * domains * per_domain
    return source, costs, p0, lower, budget


@pytest.mark.parametrize("projection", ["clip", "direct"])
@pytest.mark.parametrize("precondition", [False, True])
def test_one_domain_equals_the_single_source_path(projection, precondition: bool) -> None:
    source, costs, p0, lower, budget = problem(1)
    choice = replace(STEPS, projection=projection, precondition=precondition)
    levels = start_two_level(p0, source, 1)
    q = p0
    for _ in range(50):
        levels, composite, _ = multisource_update(
            levels, costs, p0, source, lower, 5.0, budget, STRENGTHS, choice
        )
        q, _ = stochastic_update(
            q, costs, p0, lower, np.full(q.size, 5.0), budget, STRENGTHS, eta=0.01, projection=projection
        )
        np.testing.assert_allclose(composite, q, rtol=0, atol=1e-13)
        assert levels.w.tolist() == [1.0]


def test_one_refresh_as_written() -> None:
    source, costs, p0, lower, budget = problem(2)
    rng = np.random.default_rng(1)
    before = TwoLevelWeights(np.array([0.6, 0.4]), rng.uniform(0.2, 2.0, source.size))
    after, q, _ = multisource_update(before, costs, p0, source, lower, 5.0, budget, STRENGTHS, STEPS)

    on_target = source == TARGET
    scale = np.where(on_target, 1.0, before.w[source])
    g = costs + 0.01 * np.sign(scale * before.q_tilde - p0) + 0.02 * scale * before.q_tilde
    data = np.array([(before.q_tilde * g)[source == k].sum() for k in range(2)])
    slope = data / 40 + 0.01 * np.sign(before.w - 0.5) + 0.02 * before.w
    w = project_simplex(before.w - 0.05 * slope)
    np.testing.assert_allclose(after.w, w, atol=1e-15)

    scale = np.where(on_target, 1.0, w[source])  # the new w
    g = costs + 0.01 * np.sign(scale * before.q_tilde - p0) + 0.02 * scale * before.q_tilde
    q_tilde = np.clip(before.q_tilde - 0.01 * scale * g, lower, 5.0)
    expected = project_budget(scale * q_tilde, budget, lower, scale * 5.0)
    np.testing.assert_allclose(q, expected, atol=1e-14)
    np.testing.assert_allclose(after.q_tilde * scale, q, atol=1e-14)


def test_mass_moves_to_the_cheaper_domain() -> None:
    source, costs, p0, lower, budget = problem(3)
    costs = np.where(source == 1, costs + 1.0, costs)
    levels = start_two_level(p0, source, 3)
    history = []
    for _ in range(30):
        levels, q, _ = multisource_update(levels, costs, p0, source, lower, 5.0, budget, STRENGTHS, STEPS)
        history.append(levels.w)
        assert levels.w.sum() == pytest.approx(1.0)
        assert q.sum() == pytest.approx(budget)
    # With p0 = 0 on the sources, the first data gradient of w vanishes.
    np.testing.assert_allclose(history[0], 1 / 3, atol=1e-12)
    assert history[-1][1] < 0.25
    assert q[source == 1].sum() < 0.8 * q[source == 0].sum()


def test_a_domain_that_vanishes_weighs_nothing_and_divides_nothing() -> None:
    source, costs, p0, lower, budget = problem(2)
    before = TwoLevelWeights(np.array([1.0, 0.0]), np.ones(source.size))
    after, q, _ = multisource_update(
        before, costs, p0, source, lower, 5.0, budget, STRENGTHS, replace(STEPS, eta_w=0.0)
    )
    assert (q[source == 1] == 0).all() and (after.q_tilde[source == 1] == 0).all()
    assert np.isfinite(after.q_tilde).all()
    assert q.sum() == pytest.approx(budget)


def test_a_floor_keeps_every_domain() -> None:
    source, costs, p0, lower, budget = problem(2)
    costs = np.where(source == 0, costs + 20.0, costs)
    levels = start_two_level(p0, source, 2)
    for _ in range(20):
        levels, _, _ = multisource_update(
            levels, costs, p0, source, lower, 5.0, budget, STRENGTHS, replace(STEPS, w_min=0.1, eta_w=0.5)
        )
    assert levels.w.min() == pytest.approx(0.1)


def test_preconditioning_undoes_the_slow_down() -> None:
    source, costs, p0, lower, _ = problem(4, per_domain=20)
    before = TwoLevelWeights(np.full(4, 0.25), np.full(source.size, 2.0))
    q = before.composite(source)
    moved = {}
    for precondition in (False, True):
        choice = replace(STEPS, eta_w=0.0, precondition=precondition)
        _, after, _ = multisource_update(before, costs, p0, source, lower, 5.0, q.sum(), STRENGTHS, choice)
        moved[precondition] = (after - q)[source != TARGET].std()
    assert moved[True] / moved[False] == pytest.approx(16, rel=0.05)  # 1/w² with w = 1/4


def test_caps_that_cannot_meet_the_budget_are_clamped() -> None:
    source, costs, p0, lower, _ = problem(2)
    before = TwoLevelWeights(np.array([1.0, 0.0]), np.ones(source.size))
    with pytest.warns(BudgetWarning):
        _, q, _ = multisource_update(
            before, costs, p0, source, lower, 5.0, 400.0, STRENGTHS, replace(STEPS, eta_w=0.0)
        )
    assert q.sum() == pytest.approx(5.0 * 48)
