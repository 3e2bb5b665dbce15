from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beacon.weighting import (
    BudgetWarning,
    Steps,
    Strengths,
    WeightProblem,
    Weights,
    project_budget,
    project_simplex,
    stochastic_steps,
)
from beacon.weighting.objective import TARGET
from beacon.weighting.problem import domain_scale
from beacon.weighting.solvers.multisource_steps import multisource_steps

STRENGTHS = Strengths(0.1, 0.01, 0.01, 0.0, 0.01, 0.01)
STEPS = Steps(eta_q=0.01, eta_t=0.01, eta_w=0.05)


def make_problem(
    domains: int, per_domain: int = 40, targets: int = 8, seed: int = 0, q_max: float = 5.0
) -> WeightProblem:
    rng = np.random.default_rng(seed)
    source = np.r_[np.repeat(np.arange(domains), per_domain), np.full(targets, TARGET)]
    return WeightProblem(
        costs=rng.random(source.size),
        p0=np.where(source == TARGET, 1 / targets, 0.0),
        lower=np.where(source == TARGET, 0.05, 0.0),
        upper=np.full(source.size, q_max),
        budget=targets + 0.5 * domains * per_domain,
        strengths=STRENGTHS,
        source=source,
        domains=domains,
    )


def begin(problem: WeightProblem) -> Weights:
    return Weights.start(problem.p0, problem.source, problem.domains)


def weights_of(problem: WeightProblem, w: list[float], q_tilde: np.ndarray) -> Weights:
    return Weights(domain_scale(np.array(w), problem.source) * q_tilde, np.array(w), q_tilde)


def refresh(problem: WeightProblem, now: Weights, options: Steps = STEPS) -> Weights:
    return multisource_steps(problem, now, options, eta=0.01, count=1)


@pytest.mark.parametrize("cap", ["scaled", "box"])
@pytest.mark.parametrize("w_gradient", ["mean", "sum"])
@pytest.mark.parametrize("projection", ["clip", "direct"])
@pytest.mark.parametrize("precondition", [False, True])
def test_one_domain_equals_the_single_source_path(projection, precondition: bool, w_gradient, cap) -> None:
    problem = make_problem(1)
    options = replace(STEPS, projection=projection, precondition=precondition, w_gradient=w_gradient, cap=cap)
    now = begin(problem)
    q = problem.p0
    for _ in range(50):
        now = refresh(problem, now, options)
        q, shift = stochastic_steps(problem, q, eta=0.01, projection=projection)
        np.testing.assert_allclose(now.q, q, rtol=0, atol=1e-13)
        assert now.w.tolist() == [1.0] and now.shift == pytest.approx(shift, abs=1e-13)


def test_one_refresh_as_written() -> None:
    problem = make_problem(2)
    before = weights_of(problem, [0.6, 0.4], np.random.default_rng(1).uniform(0.2, 2.0, 88))
    after = refresh(problem, before)

    source, costs, p0, lower = problem.source, problem.costs, problem.p0, problem.lower
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
    expected = project_budget(scale * q_tilde, problem.budget, lower, scale * 5.0)
    np.testing.assert_allclose(after.q, expected, atol=1e-14)
    np.testing.assert_allclose(after.q_tilde * scale, after.q, atol=1e-14)


def as_written(problem: WeightProblem, now: Weights, options: Steps, eta: float) -> Weights:
    """One refresh, sample by sample, from the formulas of the paper and the comments of the options."""
    source, q_tilde, s = problem.source, now.q_tilde, problem.strengths
    size, domains = len(source), problem.domains

    def slope(i: int, weight: float) -> float:
        q = weight * q_tilde[i]
        return problem.costs[i] + s.lambda_1 * np.sign(q - problem.p0[i]) + 2 * s.lambda_2 * q

    over_w = np.zeros(domains)
    for i in np.flatnonzero(source != TARGET):
        over_w[source[i]] += q_tilde[i] * slope(i, now.w[source[i]])
    if options.w_gradient == "mean":
        over_w /= np.count_nonzero(source != TARGET) / domains
    over_w += s.rho_1 * np.sign(now.w - 1 / domains) + 2 * s.rho_2 * now.w
    w = project_simplex(now.w - options.eta_w * over_w, lower=problem.w_min)

    moved, upper = np.zeros(size), np.zeros(size)
    for i in range(size):
        weight = 1.0 if source[i] == TARGET else w[source[i]]
        step = options.eta_t if source[i] == TARGET and options.eta_t is not None else eta
        direction = weight * slope(i, weight) / (weight**2 if options.precondition else 1.0)
        within = q_tilde[i] - step * direction
        if options.projection == "clip":
            within = min(max(within, problem.lower[i]), problem.upper[i])
        moved[i] = weight * within
        upper[i] = problem.upper[i] * (weight if options.cap == "scaled" else 1.0)
    q = project_budget(moved, problem.budget, problem.lower, upper)
    return Weights(q, w, q / np.where(source == TARGET, 1.0, w[source]))


@pytest.mark.parametrize("cap", ["scaled", "box"])
@pytest.mark.parametrize("w_gradient", ["mean", "sum"])
@pytest.mark.parametrize("eta_t", [None, 0.0, 0.4])
@pytest.mark.parametrize(
    "more", [{}, {"precondition": True}, {"projection": "direct"}], ids=["plain", "precondition", "direct"]
)
def test_every_option_as_written_where_caps_bind(cap, w_gradient, eta_t, more) -> None:
    problem = replace(make_problem(2, q_max=1.3), budget=38.0)
    # With the sum over 40 samples, steps of w are 40 times as long.
    options = Steps(
        eta_t=eta_t, eta_w=0.05 if w_gradient == "mean" else 0.001, cap=cap, w_gradient=w_gradient, **more
    )
    now = weights_of(problem, [0.6, 0.4], np.random.default_rng(1).uniform(0.0, 1.3, 88))
    expected = now
    for _ in range(3):
        expected = as_written(problem, expected, options, eta=0.2)
    weights = multisource_steps(problem, now, options, eta=0.2, count=3)
    np.testing.assert_allclose(weights.w, expected.w, atol=1e-12)
    np.testing.assert_allclose(weights.q, expected.q, atol=1e-12)
    np.testing.assert_allclose(weights.q_tilde, expected.q_tilde, atol=1e-12)
    caps = 1.3 * (domain_scale(weights.w, problem.source) if cap == "scaled" else np.ones(88))
    on_target = problem.source == TARGET
    if cap == "scaled":
        assert 5 < np.isclose(weights.q, caps)[~on_target].sum() < 75  # some are at their caps, others not
    else:  # some are above what the scaled caps would allow
        assert (weights.q > 1.3 * domain_scale(weights.w, problem.source) + 0.01)[~on_target].sum() > 5


def test_target_weights_have_a_step_size_of_their_own() -> None:
    problem = make_problem(2)
    now = weights_of(problem, [0.5, 0.5], np.random.default_rng(1).uniform(0.2, 1.0, 88))
    now = replace(now, q_tilde=np.where(problem.source == TARGET, 1.0, now.q_tilde))
    ranges = {}
    for eta_t in (None, 0.0, 0.5):
        weights = refresh(problem, now, replace(STEPS, eta_t=eta_t, eta_w=0.0))
        ranges[eta_t] = np.ptp(weights.q[problem.source == TARGET])
    costs = problem.costs[problem.source == TARGET]
    assert ranges[0.0] == pytest.approx(0.0, abs=1e-12)  # they are shifted together, and do not move apart
    assert ranges[None] == pytest.approx(0.01 * np.ptp(costs))  # as eta_q
    assert ranges[0.5] == pytest.approx(0.5 * np.ptp(costs))


def test_the_sum_jumps_to_a_vertex_where_the_mean_takes_a_step() -> None:
    problem = make_problem(2)
    problem = replace(problem, costs=np.where(problem.source == 1, problem.costs + 1.0, problem.costs))
    now = weights_of(problem, [0.5, 0.5], np.ones(88))
    w = {name: refresh(problem, now, replace(STEPS, w_gradient=name)).w for name in ("mean", "sum")}
    assert w["sum"].tolist() == [1.0, 0.0]
    assert 0.4 < w["mean"][1] < 0.5


@pytest.mark.parametrize("cap", ["scaled", "box"])
def test_whether_a_domain_of_small_weight_may_have_large_weights_is_an_option(cap) -> None:
    problem = replace(make_problem(2, q_max=1.0), budget=8 + 0.7 * 80)
    now = weights_of(problem, [0.9, 0.1], np.full(88, 0.9))
    options = replace(STEPS, eta_w=0.0, cap=cap)
    if cap == "box":
        weights = refresh(problem, now, options)
        assert weights.q.sum() == pytest.approx(problem.budget)
        assert weights.q[problem.source == 1].min() > 0.1 and weights.q.max() <= 1.0
    else:
        with pytest.warns(BudgetWarning):  # 40·0.9 + 40·0.1 + 8 is all that there may be
            weights = refresh(problem, now, options)
        np.testing.assert_allclose(weights.q[problem.source == 1], 0.1)
        np.testing.assert_allclose(weights.q[problem.source == 0], 0.9)
    assert Steps(cap=cap).largest_source_weight(5.0, 4) == {"scaled": 1.25, "box": 5.0}[cap]


def test_mass_moves_to_the_cheaper_domain() -> None:
    problem = make_problem(3)
    source = problem.source
    problem = replace(problem, costs=np.where(source == 1, problem.costs + 1.0, problem.costs))
    now = begin(problem)
    history = []
    for _ in range(30):
        now = refresh(problem, now)
        history.append(now.w)
        assert now.w.sum() == pytest.approx(1.0)
        assert now.q.sum() == pytest.approx(problem.budget)
    # With p0 = 0 on the sources, the first data gradient of w vanishes.
    np.testing.assert_allclose(history[0], 1 / 3, atol=1e-12)
    assert history[-1][1] < 0.25
    assert now.q[source == 1].sum() < 0.8 * now.q[source == 0].sum()


@pytest.mark.parametrize("cap", ["scaled", "box"])
def test_a_domain_that_vanishes_weighs_nothing_and_divides_nothing(cap) -> None:
    problem = make_problem(2)
    before = weights_of(problem, [1.0, 0.0], np.ones(problem.costs.size))
    after = refresh(problem, before, replace(STEPS, eta_w=0.0, cap=cap))
    gone = problem.source == 1
    assert (after.q[gone] == 0).all() and (after.q_tilde[gone] == 0).all()
    assert np.isfinite(after.q_tilde).all()
    assert after.q.sum() == pytest.approx(problem.budget)


def test_a_floor_keeps_every_domain() -> None:
    problem = replace(make_problem(2), w_min=0.1)
    problem = replace(problem, costs=np.where(problem.source == 0, problem.costs + 20.0, problem.costs))
    now = begin(problem)
    for _ in range(20):
        now = refresh(problem, now, replace(STEPS, eta_w=0.5))
    assert now.w.min() == pytest.approx(0.1)


def test_preconditioning_undoes_the_slow_down() -> None:
    problem = make_problem(4, per_domain=20)
    before = weights_of(problem, [0.25] * 4, np.full(problem.costs.size, 2.0))
    problem = replace(problem, budget=float(before.q.sum()))
    moved = {}
    for precondition in (False, True):
        after = refresh(problem, before, replace(STEPS, eta_w=0.0, precondition=precondition))
        moved[precondition] = (after.q - before.q)[problem.source != TARGET].std()
    assert moved[True] / moved[False] == pytest.approx(16, rel=0.05)  # 1/w² with w = 1/4


def test_caps_that_cannot_meet_the_budget_are_clamped() -> None:
    problem = replace(make_problem(2), budget=400.0)
    before = weights_of(problem, [1.0, 0.0], np.ones(problem.costs.size))
    with pytest.warns(BudgetWarning):
        after = refresh(problem, before, replace(STEPS, eta_w=0.0))
    assert after.q.sum() == pytest.approx(5.0 * 48)


def test_the_input_is_left_alone() -> None:
    problem = make_problem(2)
    before = weights_of(problem, [0.5, 0.5], np.ones(problem.costs.size))
    copies = before.q.copy(), before.w.copy(), before.q_tilde.copy()
    multisource_steps(problem, before, STEPS, eta=0.1, count=3)
    for now, copy in zip((before.q, before.w, before.q_tilde), copies, strict=True):
        np.testing.assert_array_equal(now, copy)


def test_the_solver_takes_the_steps_of_its_schedule() -> None:
    problem, options = make_problem(2), Steps()
    count, eta = options.schedule(2, 5)
    expected = multisource_steps(problem, begin(problem), options, eta, count)
    weights = options.solve(problem, begin(problem), refresh=2, planned=5)
    np.testing.assert_array_equal(weights.q, expected.q)
    np.testing.assert_array_equal(weights.w, expected.w)


def test_one_source_is_refused() -> None:
    problem = make_problem(1)
    with pytest.raises(ValueError, match="several source domains"):
        refresh(replace(problem, source=None), begin(problem))
