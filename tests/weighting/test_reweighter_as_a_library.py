"""A Reweighter in somebody else's loop: it warns of what would pass in silence, and recommends."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from small_reweighter import DOMAINS, M, N, data, make, run

from beacon import Reweighter
from beacon.weighting import KNN, Minimiser, NeighborActionCheck, WeightingConfig, WeightingWarning
from beacon.weighting.config import RECOMMENDED_WEIGHTING

LOSSES, EMBEDDINGS = data()


@pytest.fixture(autouse=True)
def no_other_warning():
    """What a test does not expect is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeightingWarning)
        yield


# Warnings


def test_losses_beyond_one_are_told_with_a_way_out() -> None:
    with pytest.warns(WeightingWarning, match=r"the mean loss is 26.\d; .*loss_scale") as told:
        rw = make()
        rw.refresh(50 * LOSSES, EMBEDDINGS)
    assert told[0].filename == __file__
    rw.refresh(40 * LOSSES, EMBEDDINGS)  # told once, also where the mean has changed


def test_losses_up_to_one_are_fine() -> None:
    make().refresh(LOSSES, EMBEDDINGS)
    make().refresh(np.ones(M + N), EMBEDDINGS)
    outlier = np.zeros(M + N)
    outlier[0] = 40.0  # one wild sample is no wrong scale
    make().refresh(outlier, EMBEDDINGS)


def test_a_loss_scale_brings_them_back() -> None:
    scaled, plain = make(loss_scale=50.0), make()
    scaled.refresh(50 * LOSSES, EMBEDDINGS)
    plain.refresh(LOSSES, EMBEDDINGS)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-12)


def test_more_refreshes_than_planned_are_told_once() -> None:
    rw = run(make(planned_refreshes=2), 2)
    with pytest.warns(WeightingWarning, match="there were 2 planned_refreshes and this is number 3"):
        run(rw, 1)
    run(rw, 1)
    assert rw.refresh_count == 4 and rw.planned_refreshes == 2


def test_a_target_at_its_floor_is_told() -> None:
    rw = make(solver=Minimiser())
    dear = np.where(DOMAINS == 1, 1.0, 0.0)
    with pytest.warns(WeightingWarning, match="all target samples are at their smallest weight, 0.05"):
        rw.refresh(dear, discrepancies=np.zeros(M + N))
    np.testing.assert_allclose(rw.weights[DOMAINS == 1], 0.05)
    rw.refresh(dear, discrepancies=np.zeros(M + N))  # told once


# Recommended

DEMOS, TARGETS, STEPS = 60, 5, 10


def demonstrations(seed: int = 0) -> dict[str, NDArray]:
    """Three sources and a target that all do alike, except a sixth of the demonstrations of the third."""
    rng = np.random.default_rng(seed)
    demos = 3 * DEMOS + TARGETS
    demo = np.repeat(np.arange(demos), STEPS)
    names = np.repeat(["a", "b", "wrong", "real"], [DEMOS, DEMOS, DEMOS, TARGETS])
    place = rng.uniform(-1, 1, (demos, 2))[demo] * np.tile(np.linspace(1, 0.2, STEPS), demos)[:, None]
    mirrored = (names == "wrong") & (np.arange(demos) % 6 == 0)
    actions = np.where(mirrored[demo, None], 1.0, -1.0) * np.tile(place, 2)
    return {
        "domains": names[demo],
        "episodes": demo,
        "mirrored": mirrored,
        "embeddings": place + 0.02 * rng.normal(size=place.shape),
        "actions": actions + 0.1 * rng.normal(size=actions.shape),
        "losses": rng.exponential(0.2, len(demo)),
    }


def weights_of(rw: Reweighter, given: dict[str, NDArray], refreshes: int, with_actions: bool) -> NDArray:
    for _ in range(refreshes):
        actions = given["actions"] if with_actions else None
        rw.refresh(given["losses"], given["embeddings"], actions=actions)
    return np.array(list(rw.episode_weights().values()))


def test_the_recommended_options_fade_wrong_labels_and_the_papers_do_not() -> None:
    given = demonstrations()
    samples = {"domains": given["domains"], "target": "real", "episodes": given["episodes"]}
    recommended = Reweighter.recommended(**samples, planned_refreshes=10)
    paper = Reweighter(**samples, planned_refreshes=10)
    source, mirrored = np.arange(3 * DEMOS + TARGETS) < 3 * DEMOS, given["mirrored"]
    shares = {}
    for name, rw in (("recommended", recommended), ("paper", paper)):
        weights = weights_of(rw, given, 10, with_actions=True)
        assert weights.sum() * STEPS == pytest.approx(rw.budget)
        shares[name] = weights[mirrored].mean() / weights[source & ~mirrored].mean()
    assert shares["recommended"] < 0.1 and shares["paper"] > 0.7


def test_the_recommended_check_needs_actions_and_can_be_left_out() -> None:
    given = demonstrations()
    samples = {"domains": given["domains"], "target": "real", "episodes": given["episodes"]}
    with pytest.raises(ValueError, match="actions: this estimator or check needs the action chunk"):
        weights_of(Reweighter.recommended(**samples), given, 1, with_actions=False)
    unchecked = Reweighter.recommended(**samples, checks=())
    weights = weights_of(unchecked, given, 1, with_actions=False)
    assert np.isfinite(weights).all() and weights.sum() * STEPS == pytest.approx(unchecked.budget)


def test_the_recommended_options_are_those_of_the_method_and_can_be_changed() -> None:
    given = demonstrations()
    samples = {"domains": given["domains"], "target": "real", "episodes": given["episodes"]}
    assert Reweighter.recommended(**samples).config == RECOMMENDED_WEIGHTING
    changed = Reweighter.recommended(**samples, alpha=0.3, discrepancy=KNN(), seed=4)
    assert changed.config.alpha == 0.3 and changed.config.granularity == "demo"
    assert Reweighter.recommended(**samples, config=WeightingConfig()).config == WeightingConfig()
    own = Reweighter.recommended(**samples, checks=(NeighborActionCheck(k=3),))
    report = own.refresh(given["losses"], given["embeddings"], actions=given["actions"])
    assert report.diagnostics["neighbor_actions"] > 1.0
