"""Demonstrations whose actions differ from those of demonstrations that look like them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from beacon.weighting import (
    CHECKS,
    BuiltCheck,
    Check,
    KNNRelative,
    Minimiser,
    NeighborActionCheck,
    PerSample,
    RefreshInputs,
    Reweighter,
)

DEMOS, TARGETS, STEPS = 120, 4, 12
LARGEST = NeighborActionCheck().largest_factor


def make_inputs(seed: int = 0, gap: float = 0.5) -> RefreshInputs:
    """Windows walk from their demonstration's placement to the origin; the action is the way that is left."""
    rng = np.random.default_rng(seed)

    def windows(count: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
        place = np.repeat(rng.uniform(-1, 1, (count, 2)), STEPS, axis=0)
        here = place * np.tile(np.linspace(1, 0.2, STEPS), count)[:, None]
        chunks = np.tile(-here, 3) + 0.2 * rng.normal(size=(len(here), 6))
        features = np.c_[here, np.zeros(len(here))]
        return (
            torch.tensor(features).float(),
            torch.tensor(chunks).float(),
            np.repeat(np.arange(count), STEPS),
        )

    source, actions, demos = windows(DEMOS)
    target, target_actions, target_demos = windows(TARGETS)
    target[:, 2] += gap
    no_domains = np.zeros(len(source), np.int64)
    return RefreshInputs(
        source, target, no_domains, ("sim",), "real", demos, target_demos, actions, target_actions, seed=3
    )


def factors_of(inputs: RefreshInputs, **options) -> np.ndarray:
    """What the check says in a loop of one's own, where there are no pictures."""
    return NeighborActionCheck(**({"pool": 10_000} | options)).build(None)(inputs).values


def per_demo(values: np.ndarray) -> np.ndarray:
    assert all(len(set(part)) == 1 for part in values.reshape(-1, STEPS).tolist())
    return values.reshape(-1, STEPS)[:, 0]


def with_actions(inputs: RefreshInputs, actions: torch.Tensor) -> RefreshInputs:
    return replace(inputs, source_actions=actions)


def with_six_wrong(inputs: RefreshInputs) -> RefreshInputs:
    actions = inputs.source_actions.clone()
    actions[: 6 * STEPS] *= -1
    return with_actions(inputs, actions)


@pytest.mark.parametrize(("share", "least"), [(0.1, 0.85), (0.3, 0.65)])
def test_wrong_actions_are_found(share: float, least: float) -> None:
    inputs = make_inputs()
    bad = np.arange(DEMOS) < share * DEMOS
    actions = inputs.source_actions.clone()
    wrong = torch.as_tensor(bad[inputs.source_episodes])
    actions[wrong] = actions[wrong] * torch.tensor([1.0, -1.0]).repeat(3)  # mirrored sideways
    factors = per_demo(factors_of(with_actions(inputs, actions), k=40))
    assert roc_auc_score(bad, factors) > least
    assert np.mean(factors[~bad] > 1.0) < 0.1 and factors.min() == 1.0 and factors.max() <= LARGEST


def test_images_that_show_something_else_are_found() -> None:
    inputs = make_inputs()
    bad = np.arange(DEMOS) < 6
    turned = inputs.source.clone()
    other = torch.as_tensor(bad[inputs.source_episodes])
    turned[other, :2] = turned[other, :2].flip(1)  # as by a camera from the side
    factors = per_demo(factors_of(replace(inputs, source=turned), k=10))
    assert roc_auc_score(bad, factors) > 0.8


def test_what_nobody_does_alike_hides_nothing() -> None:
    inputs = make_inputs()
    rng = np.random.default_rng(1)
    actions = inputs.source_actions.clone()
    step = np.tile(np.arange(STEPS), DEMOS)
    actions[step >= 9] += torch.tensor(rng.normal(0, 5, (np.sum(step >= 9), 6))).float()
    bad = np.arange(DEMOS) < 6
    actions[torch.as_tensor(bad[inputs.source_episodes] & (step < 9))] *= -1
    factors = per_demo(factors_of(with_actions(inputs, actions), k=10))
    assert roc_auc_score(bad, factors) > 0.9


def test_the_own_demonstration_has_no_vote() -> None:
    inputs = make_inputs()
    actions = inputs.source_actions.clone()
    actions[:STEPS] = 10.0  # agrees with itself, and with nobody else
    factors = per_demo(factors_of(with_actions(inputs, actions), k=5))
    assert factors[0] == LARGEST and np.median(factors[1:]) == 1.0


def test_sound_demonstrations_differ_little() -> None:
    factors = per_demo(factors_of(make_inputs(), k=10))
    assert factors.mean() < 1.1


def test_a_pool_of_some_windows_does_and_is_repeatable() -> None:
    inputs = with_six_wrong(make_inputs())
    first, again = (per_demo(factors_of(inputs, k=10, pool=300)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert roc_auc_score(np.arange(DEMOS) < 6, first) > 0.95


def test_a_single_demonstration_has_no_peers_but_the_target() -> None:
    inputs = make_inputs()
    one = np.asarray(inputs.source_episodes) == 0
    alone = replace(
        inputs,
        source=inputs.source[: one.sum()],
        source_domains=inputs.source_domains[one],
        source_episodes=inputs.source_episodes[one],
        source_actions=inputs.source_actions[: one.sum()],
    )
    np.testing.assert_array_equal(factors_of(alone, k=5, pool=100), 1.0)


def reweighter_of(inputs: RefreshInputs, **options) -> Reweighter:
    return Reweighter(
        domains=["sim"] * len(inputs.source) + ["real"] * len(inputs.target),
        target="real",
        episodes=np.concatenate([inputs.source_episodes, inputs.target_episodes + DEMOS]),
        **options,
    )


def refresh(rw: Reweighter, inputs: RefreshInputs):
    return rw.refresh(
        losses=np.full(len(rw), 0.1),
        embeddings=torch.cat([inputs.source, inputs.target]),
        actions=torch.cat([inputs.source_actions, inputs.target_actions]),
    )


def test_a_reweighter_fades_what_disagrees() -> None:
    inputs = with_six_wrong(make_inputs())
    rw = reweighter_of(
        inputs,
        discrepancy=KNNRelative(outlier_tolerance=2.0),
        checks=(NeighborActionCheck(k=20),),
        solver=Minimiser(),
        lambda_2=0.1,
        granularity="demo",
    )
    report = refresh(rw, inputs)
    weights = rw.weights[: len(inputs.source)]
    assert weights[: 6 * STEPS].max() < 0.5 * np.median(weights[6 * STEPS :])
    assert report.diagnostics["neighbor_actions"] > 1.0


def test_an_estimator_that_is_asked_once_is_checked_at_every_refresh() -> None:
    class Constant:
        once = True
        asked = 0

        def __call__(self, inputs: RefreshInputs) -> np.ndarray:
            self.asked += 1
            return np.full(len(inputs.source), 2.0)

    class Counting(BuiltCheck):
        asked = 0

        def __call__(self, inputs: RefreshInputs) -> PerSample:
            self.asked += 1
            return PerSample(np.full(len(inputs.source), 1.0 + self.asked), {"asked": float(self.asked)})

    base, check, inputs = Constant(), Counting(), make_inputs()
    rw = reweighter_of(inputs, discrepancy=base, checks=(check,))
    sources = slice(len(inputs.source))
    for refreshes in (1, 2):
        assert refresh(rw, inputs).diagnostics["asked"] == refreshes
        np.testing.assert_array_equal(rw.discrepancies[sources], 2.0 * (1.0 + refreshes))
    resumed = reweighter_of(inputs, discrepancy=base, checks=(check,))
    resumed.load_state_dict(rw.state_dict())
    refresh(resumed, inputs)
    np.testing.assert_array_equal(resumed.discrepancies[sources], 2.0 * 4.0)
    assert base.asked == 1 and (rw.discrepancies[len(inputs.source) :] == 0).all()


def test_factors_multiply_the_discrepancy_in_order() -> None:
    inputs = with_six_wrong(make_inputs())
    plain, checked, twice = (
        reweighter_of(inputs, discrepancy="knn", checks=checks)
        for checks in ((), (NeighborActionCheck(),), (NeighborActionCheck(), NeighborActionCheck(k=3)))
    )
    for rw in (plain, checked, twice):
        refresh(rw, inputs)
    sources = slice(len(inputs.source))
    first = NeighborActionCheck().build(None)(inputs).values
    second = NeighborActionCheck(k=3).build(None)(inputs).values
    assert first.max() > 1.0 and second.max() > 1.0
    np.testing.assert_allclose(checked.discrepancies[sources], plain.discrepancies[sources] * first)
    np.testing.assert_allclose(twice.discrepancies[sources], plain.discrepancies[sources] * first * second)


def test_a_check_that_these_data_do_not_allow_is_left_out() -> None:
    class Silent(Check):
        def build(self, context: object) -> BuiltCheck | None:
            return None

    inputs = make_inputs()
    plain, silent = (reweighter_of(inputs, checks=checks) for checks in ((), (Silent(),)))
    for rw in (plain, silent):
        refresh(rw, inputs)
    np.testing.assert_array_equal(plain.weights, silent.weights)


@pytest.mark.parametrize("missing", ["actions", "episodes"])
def test_what_is_missing_is_named(missing: str) -> None:
    inputs = replace(make_inputs(), **{f"source_{missing}": None, f"target_{missing}": None})
    with pytest.raises(ValueError, match=f"{missing}: this estimator or check needs"):
        factors_of(inputs)


def test_a_check_with_factors_that_are_not_numbers_is_refused() -> None:
    class Broken(BuiltCheck):
        def __call__(self, inputs: RefreshInputs) -> PerSample:
            return PerSample(np.full(len(inputs.source), np.nan))

    inputs = make_inputs()
    rw = reweighter_of(inputs, checks=(Broken(),))
    with pytest.raises(ValueError, match=r"factors of a check\[0\] = nan"):
        refresh(rw, inputs)
    assert rw.refresh_count == 0


def test_every_option_counts() -> None:
    inputs = with_six_wrong(make_inputs())
    usual = factors_of(inputs)
    for options in (
        {"k": 3},
        {"pool": 300},
        {"phases": 2},
        {"floor": 0.5},
        {"tolerance": 0.5},
        {"largest_factor": 1.2},
    ):
        assert not np.array_equal(factors_of(inputs, **options), usual), options
    assert factors_of(inputs, largest_factor=1.2).max() == 1.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k: must be at least 1"),
        ({"pool": 0}, "pool: must be at least 1"),
        ({"phases": 0}, "phases: must be at least 1"),
        ({"floor": -0.1}, "floor: must be at least 0"),
        ({"tolerance": -1.0}, "tolerance: must be at least 0"),
        ({"largest_factor": 0.5}, "largest_factor: must be at least 1"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeighborActionCheck(**options)


def test_the_registry_knows_it() -> None:
    assert CHECKS["neighbor-actions"] is NeighborActionCheck
    assert NeighborActionCheck().part_name == "neighbor-actions"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_sound_source_keeps_its_mass(seed: int) -> None:
    factors = per_demo(factors_of(make_inputs(seed), k=10))
    assert np.mean(factors > 1.0) < 0.3
    assert factors.mean() < 1.05
