"""Demonstrations whose actions differ from those of demonstrations that look like them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from beacon.weighting import DiscrepancyInputs, Reweighter
from beacon.weighting.discrepancy import KNNRelative, PeerChecked
from beacon.weighting.discrepancy.peers import LARGEST, disagreement_factors

DEMOS, TARGETS, STEPS = 120, 4, 12


def make_inputs(seed: int = 0, gap: float = 0.5) -> DiscrepancyInputs:
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
    return DiscrepancyInputs(
        source, target, no_domains, ("sim",), "real", demos, target_demos, actions, target_actions, seed=3
    )


def per_demo(values: np.ndarray) -> np.ndarray:
    assert all(len(set(part)) == 1 for part in values.reshape(-1, STEPS).tolist())
    return values.reshape(-1, STEPS)[:, 0]


def with_actions(inputs: DiscrepancyInputs, actions: torch.Tensor) -> DiscrepancyInputs:
    return replace(inputs, source_actions=actions)


@pytest.mark.parametrize(("share", "least"), [(0.1, 0.85), (0.3, 0.65)])
def test_wrong_actions_are_found(share: float, least: float) -> None:
    inputs = make_inputs()
    bad = np.arange(DEMOS) < share * DEMOS
    actions = inputs.source_actions.clone()
    wrong = torch.as_tensor(bad[inputs.source_episodes])
    actions[wrong] = actions[wrong] * torch.tensor([1.0, -1.0]).repeat(3)  # mirrored sideways
    found = per_demo(disagreement_factors(with_actions(inputs, actions), k=40, pool=10_000))
    assert roc_auc_score(bad, found) > least
    assert np.mean(found[~bad] > 1.0) < 0.1 and found.min() == 1.0 and found.max() <= LARGEST


def test_images_that_show_something_else_are_found() -> None:
    inputs = make_inputs()
    bad = np.arange(DEMOS) < 6
    turned = inputs.source.clone()
    other = torch.as_tensor(bad[inputs.source_episodes])
    turned[other, :2] = turned[other, :2].flip(1)  # as by a camera from the side
    found = per_demo(disagreement_factors(replace(inputs, source=turned), k=10, pool=10_000))
    assert roc_auc_score(bad, found) > 0.8


def test_what_nobody_does_alike_hides_nothing() -> None:
    inputs = make_inputs()
    rng = np.random.default_rng(1)
    actions = inputs.source_actions.clone()
    step = np.tile(np.arange(STEPS), DEMOS)
    actions[step >= 9] += torch.tensor(rng.normal(0, 5, (np.sum(step >= 9), 6))).float()
    bad = np.arange(DEMOS) < 6
    actions[torch.as_tensor(bad[inputs.source_episodes] & (step < 9))] *= -1
    found = per_demo(disagreement_factors(with_actions(inputs, actions), k=10, pool=10_000))
    assert roc_auc_score(bad, found) > 0.9


def test_the_own_demonstration_has_no_vote() -> None:
    inputs = make_inputs()
    actions = inputs.source_actions.clone()
    actions[:STEPS] = 10.0  # agrees with itself, and with nobody else
    found = per_demo(disagreement_factors(with_actions(inputs, actions), k=5, pool=10_000))
    assert found[0] == LARGEST and np.median(found[1:]) == 1.0


def test_sound_demonstrations_differ_little() -> None:
    found = per_demo(disagreement_factors(make_inputs(), k=10, pool=10_000))
    assert found.mean() < 1.1


def test_a_pool_of_some_windows_does_and_is_repeatable() -> None:
    inputs = make_inputs()
    actions = inputs.source_actions.clone()
    actions[: 6 * STEPS] *= -1
    inputs = with_actions(inputs, actions)
    first, again = (per_demo(disagreement_factors(inputs, k=10, pool=300)) for _ in range(2))
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
    np.testing.assert_array_equal(disagreement_factors(alone, k=5, pool=100), 1.0)


def test_a_reweighter_fades_what_disagrees() -> None:
    inputs = make_inputs()
    actions = inputs.source_actions.clone()
    actions[: 6 * STEPS] *= -1
    rw = Reweighter(
        domains=["sim"] * len(inputs.source) + ["real"] * len(inputs.target),
        target="real",
        episodes=np.concatenate([inputs.source_episodes, inputs.target_episodes + DEMOS]),
        discrepancy=PeerChecked(KNNRelative(tolerance=2.0), k=20),
        update="convex",
        lambda_2=0.1,
        granularity="demo",
    )
    report = rw.refresh(
        losses=np.full(len(rw), 0.1),
        embeddings=torch.cat([inputs.source, inputs.target]),
        actions=torch.cat([actions, inputs.target_actions]),
    )
    weights = rw.weights[: len(inputs.source)]
    assert weights[: 6 * STEPS].max() < 0.5 * np.median(weights[6 * STEPS :])
    assert report.diagnostics["peer_disagreement"] > 1.0


def test_a_constant_base_is_asked_once() -> None:
    class Constant:
        constant = True
        asked = 0

        def __call__(self, inputs: DiscrepancyInputs) -> np.ndarray:
            self.asked += 1
            return np.full(len(inputs.source), 2.0)

    base, inputs = Constant(), make_inputs()
    checked = PeerChecked(base)
    first, again = checked(inputs).values, checked(inputs).values
    np.testing.assert_array_equal(first, again)
    assert base.asked == 1 and first.min() == 2.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_sound_source_keeps_its_mass(seed: int) -> None:
    found = per_demo(disagreement_factors(make_inputs(seed), k=10, pool=10_000))
    assert np.mean(found > 1.0) < 0.3
    assert found.mean() < 1.05
