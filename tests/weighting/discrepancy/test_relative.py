"""The coverage-corrected and the label-aware k-NN discrepancies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from beacon.weighting import KNN, DiscrepancyWarning, KNNJoint, KNNRelative, RefreshInputs

PLACES, STEPS = 60, 25  # demonstrations and windows in each


def demonstrations(count: int, seed: int, shift: float = 0.0):
    """Windows scatter around the placement of their demonstration; the action leads back to the origin."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-1, 1, size=(count, 2))
    demos = np.repeat(np.arange(count), STEPS)
    features = (
        np.c_[place[demos], np.zeros((len(demos), 2))] + 0.05 * rng.normal(size=(len(demos), 4)) + shift
    )
    actions = -np.tile(place[demos], 2) + 0.02 * rng.normal(size=(len(demos), 4))
    return place, demos, features, actions


def make_inputs(source, target, domains=None, **more) -> RefreshInputs:
    _, source_demos, source_features, source_actions = source
    _, target_demos, target_features, target_actions = target
    domains = np.zeros(len(source_demos), np.int64) if domains is None else domains
    tensor = [torch.as_tensor(a, dtype=torch.float32) for a in (source_features, target_features)]
    chunks = [torch.as_tensor(a, dtype=torch.float32) for a in (source_actions, target_actions)]
    labels = tuple(range(int(domains.max()) + 1))
    return RefreshInputs(
        *tensor, domains, labels, "real", source_demos, target_demos, *chunks, seed=7, **more
    )


def test_relative_is_one_everywhere_when_the_domains_agree() -> None:
    """Averaged over many target sets: plain k-NN blames what is hard to cover, the ratio nobody."""
    source = demonstrations(PLACES, 0)
    draws = [make_inputs(source, demonstrations(5, seed)) for seed in range(1, 31)]
    plain, relative = (
        np.mean([np.bincount(source[1], weights=estimate(draw).values) / STEPS for draw in draws], axis=0)
        for estimate in (KNN(), KNNRelative())
    )
    edge = np.abs(source[0]).max(axis=1)  # placements at the rim have fewer neighbours on average
    assert spearmanr(plain, edge).statistic > 0.6
    assert abs(spearmanr(relative, edge).statistic) < 0.4
    assert relative.mean() == pytest.approx(1.0, abs=0.1)


def test_relative_still_sees_a_real_gap() -> None:
    source = demonstrations(PLACES, 0)
    far = KNNRelative()(make_inputs(source, demonstrations(5, 1, shift=3.0))).values
    assert far.mean() > 3


def test_own_demonstration_never_answers() -> None:
    # Two demonstrations that are far apart: if the own one answered, the denominator would be tiny.
    source = demonstrations(2, 0)
    source[2][source[1] == 1] += 50.0
    value = KNNRelative(subsets=2)(make_inputs(source, demonstrations(1, 1))).values
    assert value.max() < 2.0


def test_joint_finds_wrong_actions_where_plain_knn_is_blind() -> None:
    areas = {"plain": [], "joint": []}
    for seed in range(4):
        source, target = demonstrations(PLACES, seed), demonstrations(20, 100 + seed)
        bad_demo = np.random.default_rng(seed).permutation(PLACES) < 0.3 * PLACES
        source[3][bad_demo[source[1]], ::2] *= -1  # mirrored sideways
        inputs = make_inputs(source, target)
        for name, estimator in (("plain", KNN()), ("joint", KNNJoint())):
            means = np.bincount(source[1], weights=estimator(inputs).values) / STEPS
            areas[name].append(roc_auc_score(bad_demo, means))
    assert 0.4 < np.mean(areas["plain"]) < 0.6
    assert np.mean(areas["joint"]) > 0.8


def test_subsets_are_of_the_samples_own_domain() -> None:
    near, far = demonstrations(20, 0), demonstrations(20, 2, shift=8.0)
    both = tuple(
        np.concatenate([a, b + (20 if i == 1 else 0)]) for i, (a, b) in enumerate(zip(near, far, strict=True))
    )
    domains = np.repeat([0, 1], 20 * STEPS)
    values = KNNRelative()(make_inputs(both, demonstrations(5, 1), domains)).values
    assert values[domains == 0].mean() < 1.6 and values[domains == 1].mean() > 10


def test_the_seed_decides_the_subsets() -> None:
    inputs = make_inputs(demonstrations(PLACES, 0), demonstrations(5, 1))
    first, second = KNNRelative()(inputs).values, KNNRelative()(inputs).values
    assert np.array_equal(first, second)


def test_a_single_source_demonstration_gets_ones_and_a_warning() -> None:
    with pytest.warns(DiscrepancyWarning, match="single demonstration"):
        value = KNNRelative()(make_inputs(demonstrations(1, 0), demonstrations(3, 1))).values
    np.testing.assert_allclose(value, 1.0)


def test_identical_source_demonstrations_do_not_explode() -> None:
    source = demonstrations(6, 0)
    source[2][:] = 0.0
    value = KNNRelative()(make_inputs(source, demonstrations(3, 1))).values
    assert np.isfinite(value).all() and value.max() <= 100


def test_the_floor_bounds_the_distance_that_is_divided_by() -> None:
    source = demonstrations(6, 0)
    source[2][source[1] < 2] = 0.0  # two identical demonstrations have no distance to each other
    inputs = make_inputs(source, demonstrations(3, 1))
    largest = [KNNRelative(subsets=40, floor=floor)(inputs).values.max() for floor in (1e-6, 0.5, 1.0)]
    assert largest[0] > largest[1] > largest[2]


@pytest.mark.parametrize("estimator", [KNNRelative(), KNNJoint()])
@pytest.mark.parametrize("missing", ["episodes", "actions"])
def test_what_is_missing_is_named(estimator, missing: str) -> None:
    if missing == "actions" and isinstance(estimator, KNNRelative):
        estimator(_without(missing))  # does not look at labels
        return
    with pytest.raises(ValueError, match=missing):
        estimator(_without(missing))


def _without(name: str) -> RefreshInputs:
    from dataclasses import replace

    inputs = make_inputs(demonstrations(6, 0), demonstrations(3, 1))
    return replace(inputs, **{f"source_{name}": None, f"target_{name}": None})


def test_within_the_tolerance_all_demonstrations_are_equally_far() -> None:
    source = demonstrations(PLACES, 0)
    inputs = make_inputs(source, demonstrations(5, 1, shift=0.5))
    plain, tolerant = (
        np.bincount(source[1], weights=KNNRelative(outlier_tolerance=tolerance)(inputs).values) / STEPS
        for tolerance in (0.0, 3.0)
    )
    assert plain.std() > 0.02 * plain.mean()
    assert np.median(tolerant) == pytest.approx(np.median(plain))
    assert np.mean(np.isclose(tolerant, np.median(tolerant))) > 0.9


def test_what_is_remarkably_far_stays_so() -> None:
    source = demonstrations(PLACES, 0)
    features = source[2].copy()
    near = source[1] < 6
    features[~near, 3] += 2.0  # most of the source looks otherwise, a few demonstrations do not
    source = (source[0], source[1], features, source[3])
    inputs = make_inputs(source, demonstrations(5, 1))
    values = np.bincount(source[1], weights=KNNRelative(outlier_tolerance=2.0)(inputs).values) / STEPS
    assert values[:6].max() < values[6:].min()


def two_domains(shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean discrepancies of the demonstrations of two domains, the second one farther away by the shift."""
    first, second = demonstrations(PLACES, 0, shift=0.5), demonstrations(PLACES, 2, shift=0.5 + shift)
    place, demos, *rest = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    domains = np.repeat([0, 1], PLACES * STEPS)
    demos += PLACES * domains
    inputs = make_inputs((place, demos, *rest), demonstrations(5, 1), domains)
    values = np.bincount(demos, weights=KNNRelative(outlier_tolerance=2.0)(inputs).values) / STEPS
    return values[:PLACES], values[PLACES:]


def test_domains_that_hardly_differ_are_equally_far() -> None:
    near, far = two_domains(0.05)
    assert np.median(near) == pytest.approx(np.median(far))


def test_a_domain_that_is_remarkably_far_stays_so() -> None:
    near, far = two_domains(3.0)
    assert near.max() < far.min()


def test_a_tolerance_is_not_negative() -> None:
    with pytest.raises(ValueError, match="outlier_tolerance"):
        KNNRelative(outlier_tolerance=-1.0)


def test_a_source_demonstration_that_is_also_in_the_target_has_a_finite_discrepancy() -> None:
    source = demonstrations(PLACES, 0)
    first = source[1] < 3
    target = tuple(part[: int(first.sum())] for part in source)
    values = KNNRelative(k=1, outlier_tolerance=4.0)(make_inputs(source, target)).values
    assert np.isfinite(values).all()
    assert values[first].max() < np.median(values[~first])
