from __future__ import annotations

import numpy as np
import pytest
import torch
from small_reweighter import DOMAINS, EPISODES, THREE, M, N, data, make, run

from beacon import Reweighter
from beacon.weighting import (
    KNN,
    BudgetWarning,
    LocalizedEstimator,
    Minimiser,
    PerSample,
    RefreshInputs,
    Steps,
    Strengths,
    WeightProblem,
    minimise,
    stochastic_steps,
)

P0 = np.where(DOMAINS == 1, 1 / N, 0.0)
LOWER = np.where(DOMAINS == 1, 0.05, 0.0)


def problem_of(costs: np.ndarray, strengths: Strengths, capacity: float) -> WeightProblem:
    return WeightProblem(costs, P0, LOWER, np.full(M + N, 5.0), N + 0.5 * M, strengths, capacity)


def test_weights_are_uniform_before_the_first_refresh_which_is_nearly_so() -> None:
    rw = make(planned_refreshes=600)
    np.testing.assert_array_equal(rw.weights, np.full(M + N, (N + 0.5 * M) / (M + N)))
    assert rw.refresh_count == 0 and rw.effective_sample_size == pytest.approx(M + N)
    assert rw[torch.tensor([0])].item() == pytest.approx(rw.weights[0])
    run(rw, 1)
    assert rw.weights.sum() == pytest.approx(N + 0.5 * M)
    assert rw.weights[DOMAINS == 0].std() < 0.02


def test_a_refresh_is_the_paper_step_by_step() -> None:
    rw = make(planned_refreshes=600)
    losses, embeddings = data()
    for _ in range(3):
        report = rw.refresh(losses, embeddings, capacity=50.0)
    source, target = (torch.from_numpy(embeddings[k == DOMAINS]) for k in (0, 1))
    inputs = RefreshInputs(source, target, np.zeros(M, np.int64), (0,), 1)
    d = np.r_[KNN()(inputs).values, np.zeros(N)]
    problem = problem_of(losses + 0.1 * d, Strengths(0.1, 0.01, 0.01, 1e-6), capacity=50.0)
    q = P0  # the steps start at the reference weights, not at the uniform ones
    for _ in range(3):
        q, shift = stochastic_steps(problem, q, eta=0.01)
    np.testing.assert_allclose(rw.weights, q, atol=1e-14)
    np.testing.assert_allclose(rw.discrepancies, d)
    assert report.refresh == rw.refresh_count == 3 and report.shift == pytest.approx(shift)
    assert report.discrepancy_mean == pytest.approx(d[:M].mean())


def test_numpy_and_torch_agree_to_the_bit() -> None:
    first, second = make(), make()
    losses, embeddings = data()
    for _ in range(3):
        first.refresh(losses, embeddings)
        second.refresh(torch.from_numpy(losses), torch.from_numpy(embeddings).requires_grad_())
    assert first.weights.tobytes() == second.weights.tobytes()


def test_labels_may_be_words() -> None:
    words = np.where(DOMAINS == 1, "real", "sim")
    first, second = run(make(domains=words, target="real"), 3), run(make(), 3)
    assert first.weights.tobytes() == second.weights.tobytes()
    assert set(first.mass) == {"real", "sim"}


@pytest.mark.parametrize(
    ("p0", "expected"),
    [("ones", (1, 1)), ("target_one", (0, 1)), ("budget", (0.5, 1)), ("target", (0, 1 / N))],
)
def test_references(p0: str, expected) -> None:
    rw = make(p0=p0)
    for name in ("p0", "q"):  # the steps start at the reference
        start = rw.state_dict()[name].numpy()
        assert start[0] == expected[0] and start[-1] == expected[1]
        np.testing.assert_array_equal(make(p0=start).state_dict()[name].numpy(), start)
    given = run(make(p0=rw.state_dict()["p0"].numpy()), 2)
    assert given.weights.tobytes() == run(rw, 2).weights.tobytes()


def test_demo_granularity_gives_one_weight_per_demonstration() -> None:
    windows, demos = run(make(), 5).weights, run(make(granularity="demo"), 5).weights
    within = lambda q: max(q[e == EPISODES].std() for e in range(M // 4))  # noqa: E731
    assert within(windows) > 0.01 and within(demos) < 1e-12
    assert demos[DOMAINS == 0].std() > 0.01


def test_auto_step_travels_equally_far_in_few_refreshes() -> None:
    losses, embeddings = data()
    ends = []
    for refreshes in (10, 60):
        rw = make(planned_refreshes=refreshes)
        for _ in range(refreshes):
            rw.refresh(losses, embeddings)
        ends.append(rw.weights)
    np.testing.assert_allclose(*ends, atol=0.01)


def test_the_minimiser_is_the_minimiser() -> None:
    rw = make(solver=Minimiser(), lambda_2=0.1)
    losses, embeddings = data()
    report = rw.refresh(losses, embeddings, capacity=10.0)
    costs = losses + 0.1 * rw.discrepancies
    q = minimise(problem_of(costs, Strengths(0.1, 0.01, 0.1, 1e-6), capacity=10.0)).q
    np.testing.assert_allclose(rw.weights, q)
    assert report.terms.total == pytest.approx(
        costs @ q + 1e-6 * q.max() * 10 + 0.01 * np.abs(q - P0).sum() + 0.1 * (q**2).sum()
    )


def test_normalize_cost_rescales_only_large_costs() -> None:
    losses, embeddings = data()
    plain, scaled = (make(solver=Minimiser(normalize_cost=c), lambda_2=0.1) for c in (False, True))
    for rw in (plain, scaled):
        rw.refresh(50 * losses, embeddings)
    assert scaled.weights.std() < plain.weights.std()


def test_loss_ema_averages_over_refreshes() -> None:
    smooth, plain = make(loss_ema=0.75), make()
    _, embeddings = data()
    first, second = np.zeros(M + N), np.ones(M + N)
    smooth.refresh(first, embeddings)
    smooth.refresh(second, embeddings)
    plain.refresh(first, embeddings)
    plain.refresh(0.25 * second, embeddings)
    np.testing.assert_array_equal(smooth.weights, plain.weights)


@pytest.mark.parametrize("name", ["knn", "knn-relative", "knn-joint", "classifier"])
def test_every_estimator_by_name(name: str) -> None:
    rw = make(discrepancy=name)
    losses, embeddings = data()
    report = rw.refresh(losses, embeddings, actions=np.random.default_rng(0).normal(size=(M + N, 4, 2)))
    assert report.discrepancy_mean > 0
    assert (rw.discrepancies[DOMAINS == 1] == 0).all()


def test_localized_is_computed_once_and_kept_in_the_state() -> None:
    calls = []

    def loss(theta, label) -> float:
        calls.append(label)
        return float(((theta - label) ** 2).sum())

    estimator = LocalizedEstimator(
        loss, lambda theta, label: 2 * (theta - label), np.array([2.0]), steps=10, radius=0.1
    )
    rw = make(discrepancy=estimator, target=0)  # at 2, the target's loss is larger
    report = rw.refresh(data()[0])
    # λ_d is 1, not 0.1, where none is given
    assert report.terms.discrepancy == pytest.approx(rw.weights @ rw.discrepancies)
    count = len(calls)
    rw.refresh(data()[0])
    resumed = make(discrepancy=estimator, target=0)
    resumed.load_state_dict(rw.state_dict())
    resumed.refresh(data()[0])
    assert count > 0 and len(calls) == count
    d = rw.discrepancies
    assert np.unique(d[DOMAINS == 1]).size == 1 and d[DOMAINS == 1].min() >= 3.0
    np.testing.assert_array_equal(resumed.discrepancies, d)
    rw = make(discrepancy=estimator, target=0, lambda_d=0.25)
    assert rw.refresh(data()[0]).terms.discrepancy == pytest.approx(0.25 * rw.weights @ d)


def test_own_callable_as_estimator() -> None:
    seen = []

    def index(inputs: RefreshInputs) -> np.ndarray:
        seen.append(inputs)
        return np.arange(len(inputs.source_domains))

    rw = make(discrepancy=index)
    report = rw.refresh(*data())
    np.testing.assert_array_equal(rw.discrepancies[:M], np.arange(M))
    assert report.terms.discrepancy == pytest.approx(0.1 * rw.weights @ rw.discrepancies)
    assert seen[0].source.shape == (M, 6) and seen[0].target.shape == (N, 6)
    rich = make(discrepancy=lambda inputs: PerSample(np.ones(M), {"note": 3.0}))
    assert rich.refresh(*data()).diagnostics == {"note": 3.0}


def test_given_discrepancies_replace_the_estimator() -> None:
    d = np.random.default_rng(0).random(M + N)
    rw = make()
    rw.refresh(data()[0], discrepancies=d)
    np.testing.assert_array_equal(rw.discrepancies, np.where(DOMAINS == 0, d, 0.0))


def test_frozen_weights_stay_where_they_are() -> None:
    rw = make(p0="ones", alpha=1.0, solver=Steps(eta_q=0.0))
    run(rw, 3)
    assert (rw.weights == 1.0).all()


def test_estimators_are_told_how_far_the_run_is_and_another_seed_each_time() -> None:
    seen = []
    rw = make(discrepancy=lambda inputs: seen.append(inputs) or np.ones(M), planned_refreshes=3, seed=5)
    run(rw, 4)
    assert [inputs.progress for inputs in seen] == [0.0, 0.5, 1.0, 1.0]
    assert len({inputs.seed for inputs in seen}) == 4


# Several source domains


def test_two_sources_learn_domain_weights() -> None:
    rw = make(domains=THREE, target="real", planned_refreshes=6)
    for _ in range(6):
        losses, embeddings = data()
        report = rw.refresh(losses + (THREE == "b"), embeddings)
    assert rw.domain_weights["a"] > rw.domain_weights["b"] + 0.1
    assert sum(rw.domain_weights.values()) == pytest.approx(1.0)
    assert rw.mass["a"] > rw.mass["b"]
    assert report.terms.domain_l2 > 0 and report.terms.capacity == 0


@pytest.mark.parametrize("solver", [Steps(), Minimiser()])
def test_the_capacity_is_logged_with_several_sources(solver) -> None:
    rw = make(domains=THREE, target="real", solver=solver, gamma=1e-3)
    report = run(rw, 2) and rw.refresh(*data(2), capacity=70.0)
    assert report.terms.capacity == pytest.approx(1e-3 * rw.max * 70.0) and rw.max > 0.1
    terms = report.terms
    parts = (terms.loss, terms.discrepancy, terms.capacity, terms.l1, terms.l2)
    assert terms.total == pytest.approx(sum(parts) + terms.domain_l1 + terms.domain_l2)
    # The two-level gradients have no capacity term: what is logged does not move the weights.
    other = run(make(domains=THREE, target="real", solver=solver, gamma=1e-3), 3)
    assert other.weights.tobytes() == rw.weights.tobytes()


@pytest.mark.parametrize("solver", [Steps(), Minimiser()])
@pytest.mark.parametrize(("floor", "least"), [(0.0, 0.0), (0.5, 0.25), (1.0, 0.5)])
def test_a_floor_is_a_share_of_what_each_domain_starts_with(floor: float, least: float, solver) -> None:
    rw = make(domains=THREE, target="real", planned_refreshes=6, w_min=floor, solver=solver)
    for _ in range(6):
        losses, embeddings = data()
        rw.refresh(losses + 50 * (THREE == "b"), embeddings)
    assert least - 1e-9 <= rw.domain_weights["b"] <= least + 0.02


def test_the_minimiser_keeps_both_of_two_like_sources() -> None:
    rw = make(domains=THREE, target="real", planned_refreshes=6, solver=Minimiser(), lambda_2=0.1)
    losses, _ = data()
    for _ in range(6):
        rw.refresh(losses, discrepancies=np.where(THREE == "real", 0.0, np.where(THREE == "a", 1.0, 1.02)))
    assert 0.5 < rw.domain_weights["a"] < 0.8
    assert rw.mass["a"] / (rw.mass["a"] + rw.mass["b"]) == pytest.approx(rw.domain_weights["a"])


def test_pooled_sources_equal_one_source() -> None:
    pooled = run(make(domains=THREE, target="real", pool_sources=True), 4)
    single = run(make(), 4)
    np.testing.assert_array_equal(pooled.weights, single.weights)
    assert set(pooled.mass) == {"real", "a", "b"}
    assert pooled.domain_weights == {"a": 1.0, "b": 1.0}


@pytest.mark.filterwarnings("ignore::beacon.weighting.WeightingWarning")  # the losses are large
def test_a_budget_that_becomes_impossible_on_the_way_is_clamped() -> None:
    uneven = np.r_[
        ["a"] * 10, ["b"] * 30, ["real"] * N
    ]  # caps are w_k·q_max: they shrink as w leaves the larger
    rw = make(domains=uneven, target="real", q_max=1.2, alpha=0.6, planned_refreshes=4)
    losses, embeddings = data()
    with pytest.warns(BudgetWarning):
        for _ in range(4):
            rw.refresh(losses + 5.0 * (uneven == "b"), embeddings)
    assert np.isfinite(rw.weights).all() and rw.domain_weights["b"] < 0.3


@pytest.mark.parametrize(("targets", "sources"), [(5, 200), (100, 100), (300, 20)])
@pytest.mark.parametrize("solver", [Steps(eta_q=1.0), Minimiser()])
def test_a_target_sample_weighs_at_most_so_many_source_samples(targets, sources, solver) -> None:
    rw = Reweighter(
        domains=[0] * sources + [1] * targets, target=1, target_factor=4.0, solver=solver, q_max=50.0
    )
    far = np.r_[np.full(sources, 3.0), np.zeros(targets)]
    for _ in range(100):
        rw.refresh(losses=np.full(len(rw), 0.1), discrepancies=far)
    source, target = rw.weights[:sources].mean(), rw.weights[sources:].mean()
    assert target == pytest.approx(4.0 * source, rel=1e-6)
    assert rw.weights.sum() == pytest.approx(targets + 0.5 * sources)


@pytest.mark.parametrize("solver", [Steps(eta_q=0.3, projection="direct"), Minimiser()])
@pytest.mark.parametrize("corrupted", [0, 60])
def test_with_the_natural_factor_the_target_weighs_what_a_trusted_source_sample_does(
    solver, corrupted
) -> None:
    rw = Reweighter(
        domains=[0] * 200 + [1] * 10, target=1, target_factor="natural", solver=solver, lambda_2=0.1
    )
    far = np.r_[np.full(corrupted, 50.0), np.ones(200 - corrupted), np.zeros(10)]
    for _ in range(300):
        rw.refresh(losses=np.full(len(rw), 0.1), discrepancies=far)
    trusted, target = rw.weights[corrupted:200], rw.weights[200:]
    assert rw.weights[:corrupted].sum() < 0.02 * rw.budget
    assert target.mean() == pytest.approx(trusted.mean(), rel=0.02)
    assert rw.weights.sum() == pytest.approx(rw.budget)


def test_without_knowing_better_the_automatic_factor_is_the_natural_one() -> None:
    weights = {}
    for factor in ("auto", "natural", "rule"):
        rw = Reweighter([0] * 200 + [1] * 10, 1, target_factor=factor, solver=Minimiser(), lambda_2=0.1)
        for _ in range(3):
            rw.refresh(losses=np.full(210, 0.1), discrepancies=np.r_[np.full(200, 9.0), np.zeros(10)])
        weights[factor] = rw.weights
    assert np.array_equal(weights["auto"], weights["natural"])
    assert weights["rule"][200:].sum() == pytest.approx(0.103 * rw.budget, rel=0.01)
    assert weights["natural"][200:].sum() == pytest.approx(10 / 210 * rw.budget, rel=0.01)


def test_with_the_natural_factor_a_run_resumes_to_the_bit() -> None:
    def reweighter() -> Reweighter:
        domains = [0] * 40 + [1] * 4
        return Reweighter(
            domains=domains, target=1, target_factor="natural", solver=Minimiser(), lambda_2=0.1
        )

    far = np.r_[np.full(20, 9.0), np.ones(20), np.zeros(4)]
    whole, resumed = reweighter(), reweighter()
    for refresh in range(6):
        whole.refresh(losses=np.full(44, 0.1), discrepancies=far)
        if refresh == 2:
            resumed.load_state_dict(whole.state_dict())
        if refresh > 2:
            resumed.refresh(losses=np.full(44, 0.1), discrepancies=far)
    assert np.array_equal(whole.weights, resumed.weights)


def test_several_sources_are_bounded_too() -> None:
    rw = Reweighter(domains=[0] * 20 + [1] * 20 + [2] * 4, target=2, target_factor=4.0, solver=Minimiser())
    far = np.r_[np.full(20, 3.0), np.full(20, 2.0), np.zeros(4)]
    for _ in range(20):
        rw.refresh(losses=np.full(len(rw), 0.1), discrepancies=far)
    assert rw.weights[40:].max() <= 4.0 * rw.budget / (4.0 * 4 + 40) + 1e-9
