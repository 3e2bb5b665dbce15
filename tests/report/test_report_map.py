"""The map of embeddings: what is on it, and when it is made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_runs import build, config, train_run

from beacon.policy import TrainedPolicy, load_policy
from beacon.report import Report
from beacon.report.alignment import measure_alignment
from beacon.report.embedding_map import Mapper
from beacon.training.run import train


def test_alignment_tells_mixed_from_separated() -> None:
    rng = np.random.default_rng(0)
    demos = np.repeat(np.arange(20), 10)
    on_target = demos >= 12
    mixed = rng.normal(size=(200, 6)).astype(np.float32)
    apart = mixed + 20 * on_target[:, None]
    same = measure_alignment(mixed, on_target, demos)
    other = measure_alignment(apart.astype(np.float32), on_target, demos)
    assert same.auc is not None and abs(same.auc - 0.5) < 0.2 and other.auc == pytest.approx(1.0)
    assert same.neighbours == pytest.approx(same.mixed, abs=0.06) and other.neighbours == 0.0
    assert same.discrepancy == pytest.approx(1.0, abs=0.15)
    assert other.discrepancy is not None and other.discrepancy > 5
    assert measure_alignment(mixed, np.zeros(200, bool), demos).auc is None
    assert measure_alignment(mixed[:20], on_target[110:130], np.repeat([0, 1], 10)).neighbours is None


def test_the_umap_is_kept_with_the_run_and_made_once(
    copy_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run()
    shutil.rmtree(run / "report", ignore_errors=True)
    first = build(run, projection="umap")
    assert first.views[0].map is not None and first.views[0].map.projection == "UMAP"
    assert len(list((run / "report").glob("map-*.npz"))) == 1
    monkeypatch.setattr("beacon.report.embedding_map.umap", lambda _: pytest.fail("made again"))
    again = build(run, projection="umap", live=True)
    assert again.views[0].map is not None
    for space, planes in first.views[0].map.planes.items():
        for when, plane in planes.items():
            np.testing.assert_array_equal(plane, again.views[0].map.planes[space][when])
            assert len(np.unique(plane, axis=0)) > 0.9 * len(plane)
    assert again.views[0].map.alignment == first.views[0].map.alignment


def test_before_training_is_the_policy_of_the_seed(page: tuple[Path, Report]) -> None:
    maps = [view.map for view in page[1].views]
    assert all(found is not None for found in maps)
    for space in ("vision", "observation"):
        before = [found.planes[space]["before"] for found in maps if found is not None]
        after = [found.planes[space]["after"] for found in maps if found is not None]
        np.testing.assert_array_equal(before[1], before[2])
        assert np.abs(after[1] - after[2]).max() > 1e-3


def test_the_map_moves_keypoints_of_the_target_alone(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = config("cotrain", [trained / "sim.hdf5"], trained / "real.hdf5", epochs=1)
    encoder = replace(plain.policy.encoder, adapt_view=True)
    train(replace(plain, policy=replace(plain.policy, encoder=encoder)), tmp_path / "run")
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def listen(features: np.ndarray, on_target: np.ndarray, demos: np.ndarray) -> Any:
        seen.append((features, on_target))
        return measure_alignment(features, on_target, demos)

    def turned(checkpoint: Path) -> TrainedPolicy:
        found = load_policy(checkpoint)
        views = found.policy.encoder.views
        assert views is not None
        with torch.no_grad():
            views[0].departure.add_(0.2)  # type: ignore[operator]
        return found

    monkeypatch.setattr("beacon.report.embedding_map.measure_alignment", listen)
    for loader in (load_policy, turned):
        shutil.rmtree(tmp_path / "run" / "report", ignore_errors=True)
        monkeypatch.setattr("beacon.report.embedding_map.load_policy", loader)
        build(tmp_path / "run", projection="pca")
    assert len(seen) == 8  # two spaces, before and after training, as trained and turned
    for (straight, on_target), (other, _) in zip(seen[1:4:2], seen[5:8:2], strict=True):
        np.testing.assert_array_equal(straight[~on_target], other[~on_target])
        assert (np.abs(straight[on_target] - other[on_target]).max(axis=1) > 0.01).all()


def test_target_only_is_mapped_with_the_sources_of_the_others(trained: Path, tmp_path: Path) -> None:
    alone = train_run(tmp_path / "alone", "target-only", [], trained / "real.hdf5", epochs=1)
    report = build(alone, trained / "beacon", projection="pca")
    assert len(report.assets) == 1
    assert report.views[0].map is not None
    assert report.views[0].map.alignment["vision"]["after"]["auc"] is not None
    assert report.views[0].pool_numbers is not None and len(report.views[0].pool_numbers) == 4


def test_a_mapper_without_a_checkpoint_says_nothing(copy_run: Callable[..., Path]) -> None:
    report = build(copy_run(), projection="pca")
    view = report.views[0]
    assert view.pool is not None
    view.record.checkpoint = None
    empty = np.zeros(0, np.int64)
    assert Mapper("pca")(view.record, view.pool, empty, empty) is None
