from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from beacon.analysis import spearman
from beacon.runs import Run
from beacon.runs.weights_summary import summarise_weights


def test_the_summary_is_that_of_the_tables(finished: Path) -> None:
    summary = summarise_weights(finished)
    assert summary is not None
    table = pq.read_table(finished / "weights" / "windows-00000006.parquet").to_pydict()
    q, on_source = np.array(table["weight"]), np.array(table["domain"]) == "sim"
    assert summary["source_mass"] == pytest.approx(q[on_source].sum() / q.sum())
    assert summary["effective_samples"] == pytest.approx(q.sum() ** 2 / (q**2).sum(), abs=0.06)
    assert summary["domains"]["real"]["role"] == "target" and summary["domains"]["sim"]["windows"] == 45
    means = q[on_source].reshape(5, 9).mean(axis=1)
    corrupted = np.array([False, True, False, True, False])
    above, below = means[~corrupted][:, None], means[corrupted][None]
    assert summary["auc"] == pytest.approx((above > below).mean() + 0.5 * (above == below).mean())
    assert list(summary["flaws"]) == ["none", "delayed", "mirrored"]
    assert summary["flaws"]["none"]["demos"] == 3
    assert summary["flaws"]["mirrored"]["weights"] == [pytest.approx(means[3], abs=1e-4)]
    distance = np.array([0.02, 0.04, 0.16, 0.28, 0.40])  # targets at 0 and 0.1, sources at 0.02, 0.14, ...
    assert np.ptp(means) > 0
    assert summary["rank_correlation_with_distance"] == pytest.approx(spearman(means, distance))
    history = pq.read_table(finished / "weights" / "episodes.parquet").to_pydict()
    weight = np.array(history["weight"]).reshape(3, 7) * np.array([9] * 5 + [7] * 2)
    assert summary["mean_source_mass"] == pytest.approx((weight[:, :5].sum(1) / weight.sum(1)).mean())
    assert summary["history"]["steps"] == sorted(set(history["step"]))
    by_domain = summary["history"]["domains"]
    assert by_domain["sim"]["mean"] == pytest.approx(weight[:, :5].sum(1) / 45, abs=1e-4)
    assert by_domain["sim"]["mean"][-1] == pytest.approx(summary["domains"]["sim"]["mean"], abs=1e-4)
    assert by_domain["sim"]["std"][-1] == pytest.approx(means.std(), abs=1e-4)


def test_without_its_datasets_a_run_still_has_a_summary(run: Path, tmp_path: Path) -> None:
    records = json.loads((run / "data.json").read_text())
    records[0]["file"] = str(tmp_path / "gone.hdf5")
    (run / "data.json").write_text(json.dumps(records))
    summary = summarise_weights(run)
    assert summary is not None and summary["auc"] is None and list(summary["flaws"]) == ["none"]
    assert summary["rank_correlation_with_distance"] is None and summary["phase_explains"] is not None


def test_other_demonstrations_are_not_taken_for_the_runs_own(run: Path, tmp_path: Path) -> None:
    records = json.loads((run / "data.json").read_text())
    moved = Path(shutil.copy(records[0]["file"], tmp_path / "moved.hdf5"))
    with h5py.File(moved, "r+") as file:
        actions = file["data/demo_0/actions"][:-1]
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = actions
    records[0]["file"] = str(moved)
    (run / "data.json").write_text(json.dumps(records))
    summary = summarise_weights(run)
    assert summary is not None and summary["auc"] is None


def test_a_run_is_slimmed_without_losing_its_ends(run: Path) -> None:
    Run(run).slim()
    assert sorted(path.name for path in (run / "weights").glob("windows-*")) == [
        "windows-00000002.parquet",
        "windows-00000006.parquet",
    ]
    assert not list(run.rglob("optimizer.safetensors")) and summarise_weights(run) is not None
