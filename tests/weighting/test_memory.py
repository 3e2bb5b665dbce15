"""A refresh of many windows keeps few vectors of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beacon.weighting import KNNRelative, Minimiser, NeighborActionCheck, Reweighter, Steps

COUNT, FEATURES = 400_000, 4
MOST = 150  # bytes a window of NumPy's; the k-NN's table and the allocator come on top


def recommended(domains: Any, target: int, **more: Any) -> Reweighter:
    check = NeighborActionCheck(prior="none", pool=200)
    discrepancy = KNNRelative(k=2, subsets=1, outlier_tolerance=4.0, chunk_bytes=1 << 20)
    return Reweighter.recommended(domains, target, discrepancy=discrepancy, checks=(check,), **more)


@pytest.mark.parametrize(
    "make",
    [
        lambda *a, **b: Reweighter(*a, **b, discrepancy=KNNRelative(k=2, subsets=1), solver=Steps()),
        lambda *a, **b: Reweighter(*a, **b, discrepancy="knn", solver=Minimiser()),
        recommended,
    ],
    ids=["steps", "minimiser", "recommended"],
)
def test_a_refresh_stays_below_its_bytes(make: Callable[..., Reweighter]) -> None:
    rng = np.random.default_rng(0)
    episodes = np.arange(COUNT) // 100
    domains = (episodes >= episodes[-1]).astype(np.int64)
    losses = rng.uniform(size=COUNT)
    embeddings, actions = rng.normal(size=(2, COUNT, FEATURES)).astype(np.float32)
    tracemalloc.start()
    try:
        reweighter = make(domains, 1, episodes=episodes, planned_refreshes=10)
        for _ in range(2):
            reweighter.refresh(losses, embeddings, actions=actions)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / COUNT < MOST
