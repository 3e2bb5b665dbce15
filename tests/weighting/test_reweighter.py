from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from beacon import Reweighter
from beacon.weighting import (
    KNN,
    BudgetWarning,
    Discrepancy,
    DiscrepancyInputs,
    Strengths,
    WeightingConfig,
    convex_update,
    stochastic_update,
)

M, N = 40, 8
DOMAINS = np.r_[np.zeros(M, int), np.ones(N, int)]
EPISODES = np.arange(M + N) // 4


def data(seed: int = 0):
    rng = np.random.default_rng(seed)
    losses = rng.random(M + N)
    embeddings = rng.normal(size=(M + N, 6)) + 2.0 * (DOMAINS == 0)[:, None] * rng.random((M + N, 1))
    return losses, embeddings.astype(np.float32)


def make(**options) -> Reweighter:
    return Reweighter(**({"domains": DOMAINS, "target": 1, "episodes": EPISODES, "refreshes": 20} | options))


def run(rw: Reweighter, refreshes: int, first: int = 0, **more) -> Reweighter:
    for seed in range(first, first + refreshes):
        losses, embeddings = data(seed)
        rw.refresh(losses, embeddings, **more)
    return rw


def test_starts_at_the_reference_and_first_refresh_is_nearly_uniform() -> None:
    rw = make(refreshes=600)
    np.testing.assert_allclose(rw.weights, np.where(DOMAINS == 1, 1 / N, 0.0))
    run(rw, 1)
    assert rw.weights.sum() == pytest.approx(N + 0.5 * M)
    assert rw.weights[DOMAINS == 0].std() < 0.02


def test_a_refresh_is_the_paper_step_by_step() -> None:
    rw = make(refreshes=600)
    losses, embeddings = data()
    q = rw.weights
    for _ in range(3):
        rw.refresh(losses, embeddings, capacity=50.0)
    source, target = (torch.from_numpy(embeddings[k == DOMAINS]) for k in (0, 1))
    inputs = DiscrepancyInputs(source, target, np.zeros(M, np.int64), (0,), 1)
    d = np.r_[KNN()(inputs).values, np.zeros(N)]
    p0, lower = np.where(DOMAINS == 1, 1 / N, 0.0), np.where(DOMAINS == 1, 0.05, 0.0)
    strengths = Strengths(0.1, 0.01, 0.01, 1e-6)
    for _ in range(3):
        q, _ = stochastic_update(
            q,
            losses + 0.1 * d,
            p0,
            lower,
            np.full(M + N, 5.0),
            N + 0.5 * M,
            strengths,
            eta=0.01,
            capacity=50.0,
        )
    np.testing.assert_allclose(rw.weights, q, atol=1e-14)
    np.testing.assert_allclose(rw.discrepancies, d)


def test_numpy_and_torch_agree_to_the_bit() -> None:
    first, second = make(), make()
    losses, embeddings = data()
    for _ in range(3):
        first.refresh(losses, embeddings)
        second.refresh(torch.from_numpy(losses), torch.from_numpy(embeddings).requires_grad_())
    assert first.weights.tobytes() == second.weights.tobytes()


def test_indexing() -> None:
    rw = run(make(), 2)
    index = torch.tensor([3, 0, 47])
    chosen = rw[index]
    assert isinstance(chosen, torch.Tensor) and chosen.dtype == torch.float32 and not chosen.requires_grad
    np.testing.assert_allclose(chosen.numpy(), rw.weights[[3, 0, 47]], rtol=1e-6)
    np.testing.assert_array_equal(rw[np.array([3, 0, 47])], rw.weights[[3, 0, 47]])
    assert rw[5] == rw.weights[5] and rw[:4].shape == (4,)
    assert len(rw) == M + N


def test_statistics() -> None:
    rw = run(make(), 3)
    q = rw.weights
    assert rw.max == q.max() and rw.weight_decay == 1e-6 * q.max()
    assert rw.effective_sample_size == pytest.approx(q.sum() ** 2 / (q**2).sum())
    assert rw.mass == {1: pytest.approx(q[DOMAINS == 1].sum()), 0: pytest.approx(q[DOMAINS == 0].sum())}
    assert list(rw.effective_sample_sizes()) == [1, 0]
    assert rw.domain_weights == {0: 1.0}
    assert not rw.bound(np.ones(M + N)).applicable


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
    assert rw.weights[0] == expected[0] and rw.weights[-1] == expected[1]
    np.testing.assert_array_equal(make(p0=rw.weights).weights, rw.weights)


def test_demo_granularity_gives_one_weight_per_demonstration() -> None:
    windows, demos = run(make(), 5).weights, run(make(granularity="demo"), 5).weights
    within = lambda q: max(q[e == EPISODES].std() for e in range(M // 4))  # noqa: E731
    assert within(windows) > 0.01 and within(demos) < 1e-12
    assert demos[DOMAINS == 0].std() > 0.01


def test_auto_step_travels_equally_far_in_few_refreshes() -> None:
    losses, embeddings = data()
    ends = []
    for refreshes in (10, 60):
        rw = make(refreshes=refreshes)
        for _ in range(refreshes):
            rw.refresh(losses, embeddings)
        ends.append(rw.weights)
    np.testing.assert_allclose(*ends, atol=0.01)


def test_convex_update_is_the_minimiser() -> None:
    rw = make(update="convex", lambda_2=0.1)
    losses, embeddings = data()
    report = rw.refresh(losses, embeddings, capacity=10.0)
    costs = losses + 0.1 * rw.discrepancies
    p0, lower = np.where(DOMAINS == 1, 1 / N, 0.0), np.where(DOMAINS == 1, 0.05, 0.0)
    expected = convex_update(
        costs, p0, lower, np.full(M + N, 5.0), N + 0.5 * M, Strengths(0.1, 0.01, 0.1, 1e-6), capacity=10.0
    )
    np.testing.assert_allclose(rw.weights, expected.q)
    assert report.terms.total == pytest.approx(
        costs @ expected.q
        + 1e-6 * expected.q.max() * 10
        + 0.01 * np.abs(expected.q - p0).sum()
        + 0.1 * (expected.q**2).sum()
    )


def test_normalize_cost_rescales_only_large_costs() -> None:
    losses, embeddings = data()
    plain, scaled = (make(update="convex", lambda_2=0.1, normalize_cost=c) for c in (False, True))
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

    options = {
        "loss": loss,
        "gradient": lambda theta, label: 2 * (theta - label),
        "reference": np.array([2.0]),
        "steps": 10,
    }
    make_it = lambda: make(discrepancy="localized", discrepancy_options=options)  # noqa: E731
    rw = make_it()
    rw.refresh(data()[0])
    count = len(calls)
    rw.refresh(data()[0])
    resumed = make_it()
    resumed.load_state_dict(rw.state_dict())
    resumed.refresh(data()[0])
    assert count > 0 and len(calls) == count
    assert rw.config.discrepancy_strength() == 1.0
    assert np.unique(rw.discrepancies[DOMAINS == 0]).size == 1


def test_own_callable_as_estimator() -> None:
    seen = []

    def mine(inputs: DiscrepancyInputs):
        seen.append(inputs)
        return np.arange(len(inputs.source_domains))

    rw = make(discrepancy=mine)
    rw.refresh(*data())
    np.testing.assert_array_equal(rw.discrepancies[:M], np.arange(M))
    assert seen[0].source.shape == (M, 6) and seen[0].target.shape == (N, 6)
    rich = make(discrepancy=lambda inputs: Discrepancy(np.ones(M), {"note": 3.0}))
    assert rich.refresh(*data()).diagnostics == {"note": 3.0}


def test_given_discrepancies_replace_the_estimator() -> None:
    d = np.random.default_rng(0).random(M + N)
    rw = make()
    rw.refresh(data()[0], discrepancies=d)
    np.testing.assert_array_equal(rw.discrepancies, np.where(DOMAINS == 0, d, 0.0))


def test_frozen_weights_stay_where_they_are() -> None:
    rw = make(p0="ones", alpha=1.0, eta_q=0.0)
    run(rw, 3)
    assert (rw.weights == 1.0).all()


# Several source domains

THREE = np.r_[np.repeat(["a", "b"], M // 2), ["real"] * N]


def test_two_sources_learn_domain_weights() -> None:
    rw = make(domains=THREE, target="real", refreshes=6)
    for _ in range(6):
        losses, embeddings = data()
        report = rw.refresh(losses + (THREE == "b"), embeddings)
    assert rw.domain_weights["a"] > rw.domain_weights["b"] + 0.1
    assert sum(rw.domain_weights.values()) == pytest.approx(1.0)
    assert rw.mass["a"] > rw.mass["b"]
    assert report.terms.domain_l2 > 0 and report.terms.capacity == 0


@pytest.mark.parametrize("update", ["stochastic", "convex"])
@pytest.mark.parametrize(("floor", "least"), [(0.0, 0.0), (0.5, 0.25), (1.0, 0.5)])
def test_a_floor_is_a_share_of_what_each_domain_starts_with(floor: float, least: float, update: str) -> None:
    rw = make(domains=THREE, target="real", refreshes=6, w_min=floor, update=update)
    for _ in range(6):
        losses, embeddings = data()
        rw.refresh(losses + 50 * (THREE == "b"), embeddings)
    assert least - 1e-9 <= rw.domain_weights["b"] <= least + 0.02


def test_auto_minimises_where_it_can() -> None:
    losses, embeddings = data()
    for lambda_2, update in ((0.1, "convex"), (0.0, "stochastic")):
        chosen, auto = (make(lambda_2=lambda_2, update=name) for name in (update, "auto"))
        for rw in (chosen, auto):
            rw.refresh(losses, embeddings)
        np.testing.assert_array_equal(chosen.weights, auto.weights)


def test_the_minimiser_keeps_both_of_two_like_sources() -> None:
    rw = make(domains=THREE, target="real", refreshes=6, update="convex", lambda_2=0.1)
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


# State


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"domains": THREE, "target": "real"},
        {"update": "convex"},
        {"update": "convex", "domains": THREE, "target": "real"},
        {"loss_ema": 0.5, "granularity": "demo"},
        {"discrepancy": "classifier"},
        {"discrepancy": "knn-relative"},
    ],
    ids=str,
)
def test_a_resumed_reweighter_is_the_same_to_the_bit(options) -> None:
    whole = run(make(**options), 6)
    half = run(make(**options), 3)
    resumed = make(**options)
    resumed.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in half.state_dict().items()})
    run(resumed, 3, first=3)
    for name, value in whole.state_dict().items():
        assert value.tobytes() == resumed.state_dict()[name].tobytes(), name


def test_the_state_survives_safetensors(tmp_path) -> None:
    from safetensors.numpy import load_file, save_file

    rw = run(make(), 2)
    save_file(rw.state_dict(), tmp_path / "state.safetensors")
    other = make()
    other.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert other.weights.tobytes() == rw.weights.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("q"), r"missing \['q'\]"),
        (lambda s: s.update(extra=np.zeros(1)), r"unknown \['extra'\]"),
        (lambda s: s.update(q=np.zeros(3)), r"'q' has shape \(3,\)"),
        (lambda s: s.update(layout=np.zeros(32, np.uint8)), "belongs to other samples"),
    ],
)
def test_a_foreign_state_is_refused_and_changes_nothing(change, message: str) -> None:
    state = run(make(), 2).state_dict()
    change(state)
    rw = run(make(), 1)
    before = {k: v.tobytes() for k, v in rw.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        rw.load_state_dict(state)
    assert {k: v.tobytes() for k, v in rw.state_dict().items()} == before


# Bad input


def spoiled(array, index: int, value: float):
    array = array.copy()
    array[index] = value
    return array


LOSSES, EMBEDDINGS = data()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"losses": spoiled(LOSSES, 7, math.nan)}, r"losses\[7\] = nan is not finite"),
        ({"losses": spoiled(LOSSES, 3, math.inf)}, r"losses\[3\] = inf is not finite"),
        ({"losses": LOSSES[:-1]}, r"losses: expected one number per sample, shape \(48,\), got \(47,\)"),
        ({"embeddings": spoiled(EMBEDDINGS, 9, math.nan)}, r"embeddings\[9\] is not finite"),
        ({"embeddings": EMBEDDINGS[:5]}, r"embeddings: expected one row per sample \(48 rows\)"),
        ({"embeddings": None}, "embeddings: this discrepancy estimator needs"),
        ({"discrepancies": -np.ones(M + N)}, r"discrepancies\[0\] = -1.0 is negative"),
        ({"actions": spoiled(LOSSES, 2, math.nan)}, r"actions\[2\] is not finite"),
        ({"capacity": math.nan}, "capacity: must be a finite number"),
    ],
)
def test_bad_refresh_is_refused_and_changes_nothing(arguments, message: str) -> None:
    rw = run(make(), 2)
    before = {k: v.tobytes() for k, v in rw.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        rw.refresh(**({"losses": LOSSES, "embeddings": EMBEDDINGS} | arguments))
    assert {k: v.tobytes() for k, v in rw.state_dict().items()} == before


def test_an_estimator_of_ones_own_is_checked_too() -> None:
    rw = make(discrepancy=lambda inputs: np.full(M, np.nan))
    with pytest.raises(ValueError, match=r"discrepancy\[0\] = nan"):
        rw.refresh(LOSSES, EMBEDDINGS)
    assert rw.refreshes == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 5}, r"target: no sample is of the target domain 5; domains has \[0, 1\]"),
        ({"target": "real"}, "target: 'real' is not of the labels' type"),
        ({"domains": np.ones(9, int)}, "there is no source"),
        ({"domains": np.array([0, 1, -2])}, r"domains\[2\] = -2 is negative"),
        ({"domains": np.ones((3, 3), int)}, "domains: expected one label per sample"),
        ({"domains": np.array([0.0, 1.0])}, "domains: labels must be all int or all str"),
        ({"episodes": [1, 2]}, "episodes: expected one id per sample"),
        ({"episodes": None, "granularity": "demo"}, "episodes: granularity='demo' needs"),
        ({"update": "convex", "lambda_2": 0.0}, "lambda_2: must be above 0 for the convex update"),
        ({"alpha": 50.0}, r"alpha: the weights cannot sum to n \+ alpha·m = 2008"),
        ({"q_target_min": 4.0, "alpha": 0.1}, "alpha: the weights cannot sum to"),
        ({"q_target_min": 9.0}, "q_target_min: must be at most q_max"),
        ({"lambda_1": -1.0}, "lambda_1: must be a number of at least 0"),
        ({"eta_q": "fast"}, "eta_q: must be 'auto' or a number"),
        ({"refreshes": 0}, "refreshes: must be at least 1"),
        ({"loss_ema": 1.0}, "loss_ema"),
        ({"w_min": 1.5}, "w_min: must be at most 1"),
        ({"update": "magic"}, "update: must be 'stochastic' or 'convex'"),
        ({"discrepancy": "magic"}, "discrepancy: unknown 'magic'; choose one of knn"),
        ({"discrepancy": 3}, "discrepancy: must be a name or a callable"),
        ({"discrepancy_options": {"neighbours": 3}}, "discrepancy_options: 'knn' does not take these"),
        ({"p0": np.ones(3)}, "p0: expected one number per sample"),
        ({"p0": -np.ones(M + N)}, r"p0\[0\] = -1.0 is negative"),
    ],
)
def test_bad_construction_is_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_config_is_plain_data() -> None:
    from dataclasses import asdict

    config = WeightingConfig(alpha=0.4)
    assert WeightingConfig(**json.loads(json.dumps(asdict(config)))) == config


def test_a_budget_that_becomes_impossible_on_the_way_is_clamped() -> None:
    uneven = np.r_[
        ["a"] * 10, ["b"] * 30, ["real"] * N
    ]  # caps are w_k·q_max: they shrink as w leaves the larger
    rw = make(domains=uneven, target="real", q_max=1.2, alpha=0.6, refreshes=4)
    with pytest.warns(BudgetWarning):
        for _ in range(4):
            rw.refresh(LOSSES + 5.0 * (uneven == "b"), EMBEDDINGS)
    assert np.isfinite(rw.weights).all() and rw.domain_weights["b"] < 0.3


@pytest.mark.parametrize(("targets", "sources"), [(5, 200), (100, 100), (300, 20)])
@pytest.mark.parametrize("update", ["stochastic", "convex"])
def test_a_target_sample_weighs_at_most_so_many_source_samples(targets, sources, update) -> None:
    rw = Reweighter(
        domains=[0] * sources + [1] * targets,
        target=1,
        target_factor=4.0,
        update=update,
        eta_q=1.0,
        q_max=50.0,
    )
    far = np.r_[np.full(sources, 3.0), np.zeros(targets)]
    for _ in range(100):
        rw.refresh(losses=np.full(len(rw), 0.1), discrepancies=far)
    source, target = rw.weights[:sources].mean(), rw.weights[sources:].mean()
    assert target == pytest.approx(4.0 * source, rel=1e-6)
    assert rw.weights.sum() == pytest.approx(targets + 0.5 * sources)


def test_several_sources_are_bounded_too() -> None:
    rw = Reweighter(domains=[0] * 20 + [1] * 20 + [2] * 4, target=2, target_factor=4.0, update="auto")
    far = np.r_[np.full(20, 3.0), np.full(20, 2.0), np.zeros(4)]
    for _ in range(20):
        rw.refresh(losses=np.full(len(rw), 0.1), discrepancies=far)
    assert rw.weights[40:].max() <= 4.0 * rw.budget / (4.0 * 4 + 40) + 1e-9
