from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from beacon.weighting import KNN, Reweighter
from beacon.weighting.discrepancy.neighbor_index import nearest_by_index
from beacon.weighting.discrepancy.neighbors import nearest


def random_sets(m: int, n: int, features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, features)), rng.normal(1.0, 1.0, size=(n, features))


@pytest.mark.parametrize(
    ("n", "k", "offset"), [(40, 5, 0.0), (3, 5, 0.0), (1000, 5, 0.0), (1500, 1, 0.0), (1003, 7, 1000.0)]
)
def test_nearest_agrees_with_scikit_learn(n: int, k: int, offset: float) -> None:
    queries, points = (part.astype(np.float32) + np.float32(offset) for part in random_sets(257, n, 16))
    found = nearest(torch.from_numpy(queries), torch.from_numpy(points), k, chunk_bytes=1 << 16)
    oracle = NearestNeighbors(n_neighbors=min(k, n), algorithm="brute")
    distances, indices = oracle.fit(points.astype(np.float64)).kneighbors(queries.astype(np.float64))
    np.testing.assert_allclose(found.distances.numpy(), distances, rtol=2e-5)
    assert (found.indices.numpy() == indices).mean() > 0.999  # near ties may swap


def test_near_duplicates_do_not_drown_in_rounding() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 64)).astype(np.float32) * 100
    queries = points + rng.normal(size=points.shape).astype(np.float32) * 1e-3
    found = nearest(torch.from_numpy(queries), torch.from_numpy(points), 1)
    exact = np.linalg.norm(queries.astype(np.float64) - points, axis=1)
    np.testing.assert_allclose(found.distances[:, 0].numpy(), exact, rtol=1e-3)


def test_own_group_is_left_out() -> None:
    queries, points = (part.astype(np.float32) for part in random_sets(60, 30, 4))
    asking, answering = np.arange(60) % 7, np.arange(30) % 9
    found = nearest(torch.from_numpy(queries), torch.from_numpy(points), 3, asking, answering)
    for i in range(60):
        others = np.flatnonzero(answering != asking[i])
        expected = np.sort(np.linalg.norm(queries[i] - points[others], axis=1))[:3]
        np.testing.assert_allclose(found.distances[i].numpy(), expected, rtol=1e-5)


def test_an_inverted_index_finds_most_neighbours_and_nearly_the_same_weights() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 8)) * 3  # as embeddings of episodes, points come in groups
    points, queries = (
        torch.from_numpy((centres[rng.integers(40, size=count)] + rng.normal(size=(count, 8))).astype("f4"))
        for count in (3000, 500)
    )
    exact = nearest(queries, points, 5)
    ((_, indexed),) = nearest_by_index(queries, points, 5)
    recall = np.mean(
        [len({*a} & {*b}) / 5 for a, b in zip(exact.indices.tolist(), indexed.indices.tolist(), strict=True)]
    )
    assert recall > 0.9
    assert (
        indexed.mean_distance() >= exact.mean_distance() * (1 - 1e-5)
    ).all()  # missed ones are replaced by farther ones
    ((_, searched_all),) = nearest_by_index(queries, points, 5, probed_share=1.0)
    np.testing.assert_allclose(searched_all.distances.numpy(), exact.distances.numpy(), rtol=1e-3, atol=1e-3)
    weights = []
    for beyond in (0, 1000):
        domains = np.repeat([0, 1], [len(queries), len(points)])
        reweighter = Reweighter(domains, 1, discrepancy=KNN(index_beyond=beyond), planned_refreshes=5)
        reweighter.refresh(np.full(len(domains), 0.5), torch.cat([queries, points]))
        weights.append(reweighter.weights)
    assert np.abs(weights[0] - weights[1]).sum() < 0.01 * weights[0].sum()
