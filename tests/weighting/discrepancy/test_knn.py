from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from beacon.weighting import KNN, DiscrepancyWarning, RefreshInputs


def inputs(source, target, source_episodes=None, target_episodes=None, **more) -> RefreshInputs:
    source, target = (torch.as_tensor(np.asarray(part), dtype=torch.float32) for part in (source, target))
    return RefreshInputs(
        source=source,
        target=target,
        source_domains=np.zeros(len(source), np.int64),
        source_labels=("sim",),
        target_label="real",
        source_episodes=source_episodes,
        target_episodes=target_episodes,
        **more,
    )


def random_sets(m: int, n: int, features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, features)), rng.normal(1.0, 1.0, size=(n, features))


def test_discrepancy_by_scikit_learn() -> None:
    source, target = random_sets(300, 50, 8)
    value = KNN(k=5)(inputs(source, target)).values
    across = NearestNeighbors(n_neighbors=5).fit(target).kneighbors(source)[0].mean(axis=1)
    within = NearestNeighbors(n_neighbors=6).fit(target).kneighbors(target)[0][:, 1:].mean()
    np.testing.assert_allclose(value, across / within, rtol=1e-4)


def test_a_sample_as_close_as_targets_are_to_each_other_is_at_one() -> None:
    rng = np.random.default_rng(0)
    value = KNN()(inputs(rng.normal(size=(500, 4)), rng.normal(size=(500, 4)))).values
    assert value.mean() == pytest.approx(1.0, abs=0.05)


def test_fewer_targets_than_neighbours() -> None:
    source, target = random_sets(20, 3, 4)
    value = KNN(k=5)(inputs(source, target)).values
    across = np.linalg.norm(source[:, None] - target[None], axis=2).mean(axis=1)
    pairs = [np.linalg.norm(target[i] - target[j]) for i in range(3) for j in range(3) if i != j]
    np.testing.assert_allclose(value, across / np.mean(pairs), rtol=1e-5)


def test_a_single_target_uses_the_median_source_distance() -> None:
    source, target = random_sets(21, 1, 4)
    with pytest.warns(DiscrepancyWarning, match="no spread"):
        value = KNN()(inputs(source, target)).values
    assert np.median(value) == pytest.approx(1.0)
    assert np.isfinite(value).all()


def test_identical_targets_use_the_median_source_distance_too() -> None:
    with pytest.warns(DiscrepancyWarning):
        value = KNN()(inputs([[1.0], [2.0], [4.0]], np.zeros((8, 1)))).values
    np.testing.assert_allclose(value, [0.5, 1.0, 2.0], rtol=1e-6)


def test_everything_identical_is_zero() -> None:
    with pytest.warns(DiscrepancyWarning):
        value = KNN()(inputs(np.ones((5, 3)), np.ones((4, 3)))).values
    assert (value == 0).all()


def test_outliers_are_capped() -> None:
    value = KNN(k=1)(inputs([[1e9], [0.5]], [[0.0], [1.0]])).values
    np.testing.assert_allclose(value, [100.0, 0.5])


def test_excluding_the_same_demo_widens_the_spread() -> None:
    rng = np.random.default_rng(0)
    demos = np.repeat(np.arange(10), 20)
    target = rng.normal(size=(10, 6))[demos] + 0.01 * rng.normal(size=(200, 6))
    source = rng.normal(size=(50, 6))
    near, far = (
        KNN(exclude_same_demo=choice)(inputs(source, target, np.arange(50), demos)).values
        for choice in (False, True)
    )
    assert near.mean() > 10 * far.mean()
    assert 0.5 < far.mean() < 3


def test_excluding_the_only_demo_falls_back() -> None:
    source, target = random_sets(9, 6, 3)
    with pytest.warns(DiscrepancyWarning):
        value = KNN(exclude_same_demo=True)(
            inputs(source, target, np.arange(9), np.zeros(6, np.int64))
        ).values
    assert np.median(value) == pytest.approx(1.0)


def test_memory_is_bounded_by_the_chunk() -> None:
    source, target = random_sets(333, 40, 8)
    small, large = (KNN(chunk_bytes=size)(inputs(source, target)).values for size in (1, 1 << 30))
    np.testing.assert_allclose(small, large, rtol=1e-5)


@pytest.mark.parametrize(("options", "message"), [({"k": 0}, "k: must be at least 1"), ({"cap": 0.0}, "cap")])
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KNN(**options)


def test_missing_embeddings_are_named() -> None:
    bare = RefreshInputs(None, None, np.zeros(3, np.int64), (0,), 1)
    with pytest.raises(ValueError, match="embeddings"):
        KNN()(bare)
