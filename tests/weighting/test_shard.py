"""Processes that each have a part of the embeddings find the weights that one with all of them finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from process_files import group_threads

from beacon.weighting import (
    KNN,
    DomainClassifier,
    KNNJoint,
    KNNRelative,
    Minimiser,
    NeighborActionCheck,
    RefreshInputs,
    Reweighter,
    Shard,
    Steps,
    project_budget,
)
from beacon.weighting.solvers.projection import project_shifted

EPISODES, LENGTH, FEATURES = 90, 60, 6  # more samples than a projection sorts at once
PROCESSES = 3


def own_estimator(inputs: RefreshInputs) -> np.ndarray:
    """An estimator that knows nothing of shards."""
    source, target = inputs.embeddings()
    assert len(source) == len(inputs.source_domains)
    return (source - target.mean(dim=0)).norm(dim=1).double().numpy()


CASES: dict[str, dict[str, Any]] = {
    "knn": {"discrepancy": KNN()},
    "knn, demonstrations left out": {"discrepancy": KNN(exclude_same_demo=True), "solver": Minimiser()},
    "knn by an index": {"discrepancy": KNN(index_beyond=100)},
    "relative": {"discrepancy": KNNRelative(outlier_tolerance=1.0), "granularity": "demo"},
    "joint": {"discrepancy": KNNJoint(), "solver": Steps(projection="direct")},
    "classifier": {"discrepancy": DomainClassifier()},
    "cross-fitted classifier": {"discrepancy": DomainClassifier(folds=3)},
    "check": {"discrepancy": KNN(), "checks": [NeighborActionCheck(prior="none", pool=500)]},
    "own": {"discrepancy": own_estimator, "solver": Minimiser(normalize_cost=True), "lambda_1": 0.0},
    "two sources": {"discrepancy": KNNRelative(), "solver": Minimiser(), "lambda_2": 0.1},
}


def samples(case: str) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Domains and demonstrations, and what a refresh sees; the target is in the middle."""
    rng = np.random.default_rng(1)
    episodes = np.repeat(np.arange(EPISODES), LENGTH)
    domains = np.where((episodes >= 40) & (episodes < 48), 2, 0)
    if case == "two sources":
        domains[episodes >= 48] = 1
    seen = {
        "losses": rng.uniform(0, 1, len(episodes)),
        "embeddings": rng.normal(size=(len(episodes), FEATURES)).astype(np.float32) + domains[:, None] / 4,
        "actions": rng.normal(size=(len(episodes), 3)),
    }
    return domains, episodes, seen


def weigh(case: str, shard: Shard | None) -> dict[str, np.ndarray]:
    """Weights and discrepancies after two refreshes."""
    domains, episodes, seen = samples(case)
    rows = slice(None) if shard is None else shard.rows
    own = {name: value if name == "losses" else value[rows] for name, value in seen.items()}
    options: dict[str, Any] = {"planned_refreshes": 600, "shard": shard, **CASES[case]}
    reweighter = Reweighter(domains, 2, episodes=episodes, **options)
    for _ in range(2):
        report = reweighter.refresh(**own, capacity=5.0)
    return {
        "weights": reweighter.weights,
        "discrepancies": reweighter.discrepancies,
        "logged": np.array([report.shift, *report.diagnostics.values()]),
    }


def project_hard_points(shard: Shard) -> np.ndarray:
    """The own part of a projection of numbers so far apart that rounding loses the shift."""
    x = np.random.default_rng(0).normal(size=5000) * 1e14
    own = x[shard.rows]
    projected, _ = project_shifted(own, 700.0, np.zeros_like(own), np.ones_like(own), shard=shard)
    return np.asarray(shard.gather_array(projected))


def work(rank: int, meeting: str, folder: str) -> None:
    """One of the processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=PROCESSES)
    found: dict[str, Any] = {}
    for case in CASES:
        found[case] = weigh(case, Shard.of_group(EPISODES * LENGTH))
    found["far apart"] = project_hard_points(Shard.of_group(5000))
    table = torch.arange(10.0)[:, None]
    few = Shard.of_group(2)  # the first process has nothing
    found["few"] = (few.rows, few.gather(table[few.rows]), few.collect(table[few.rows]))
    threads = group_threads()
    dist.destroy_process_group()
    found["threads"] = (threads, group_threads())
    torch.save(found, Path(folder) / f"{rank}.pt")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of three processes has found."""
    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOO_SOCKET_IFNAME", "lo")
        torch.multiprocessing.spawn(work, (str(folder / "meeting"), str(folder)), nprocs=PROCESSES)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(PROCESSES)]


@pytest.mark.parametrize("case", CASES)
def test_shards_find_the_weights_of_the_whole(case: str, together: list[dict[str, Any]]) -> None:
    alone = weigh(case, None)
    for found in together:
        np.testing.assert_allclose(found[case]["discrepancies"], alone["discrepancies"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[case]["logged"], alone["logged"], rtol=1e-4)
        np.testing.assert_allclose(found[case]["weights"], alone["weights"], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found[case]["weights"], together[0][case]["weights"])


def test_far_apart_numbers_are_projected_together(together: list[dict[str, Any]]) -> None:
    x = np.random.default_rng(0).normal(size=5000) * 1e14
    for found in together:
        np.testing.assert_array_equal(found["far apart"], project_budget(x, 700.0, 0.0, 1.0))


def test_fewer_samples_than_processes(together: list[dict[str, Any]]) -> None:
    assert [found["few"][0] for found in together] == [slice(0, 0), slice(0, 1), slice(1, 2)]
    assert all(found["few"][1].flatten().tolist() == [0.0, 1.0] for found in together)
    assert [found["few"][2] is None for found in together] == [False, True, True]


def test_no_thread_of_the_group_is_left(together: list[dict[str, Any]]) -> None:
    for found in together:
        before, after = found["threads"]
        assert before and not after
