"""BEACON's ablations, and its multi-source form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from beacon_runs import FAST, go_home
from demonstrations import make_dataset
from tiny_runs import metrics, tiny_config

from beacon.methods import PAPER
from beacon.plain import changed
from beacon.training import train

SHORT = {"part": "localized", "steps": 10, "evaluate_every": 5}


@pytest.mark.parametrize("solver", ["steps", "minimiser"])
@pytest.mark.parametrize("discrepancy", ["knn", "classifier", SHORT], ids=["knn", "classifier", "localized"])
def test_all_six_ablations_train(solver, discrepancy, source: Path, target: Path, tmp_path: Path) -> None:
    options = changed(PAPER, {"weighting": {"solver": solver}, "discrepancy": discrepancy})
    train(tiny_config("beacon-paper", source, target, options=options), tmp_path / "run")
    lines = metrics(tmp_path / "run", "refresh")
    assert len(lines) == 3
    for line in lines:
        assert line["mass/sim"] + line["mass/real"] == pytest.approx(14 + 0.5 * 45)


def test_several_sources_log_domain_weights_and_masses(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    train(tiny_config("beacon-paper", (source, other_source), target), tmp_path / "run")
    for line in metrics(tmp_path / "run", "refresh"):
        assert line["domain_weight/sim"] + line["domain_weight/other"] == pytest.approx(1)
        assert sum(line[f"mass/{name}"] for name in ("sim", "other", "real")) == pytest.approx(14 + 36)
    pooled = changed(PAPER, {"weighting": {"pool_sources": True, "solver": "minimiser"}})
    train(tiny_config("beacon-paper", (source, other_source), target, options=pooled), tmp_path / "pooled")
    assert metrics(tmp_path / "pooled", "refresh")[-1]["domain_weight/sim"] == 1


def test_weights_of_several_sources_are_minimised_from_the_start(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    train(tiny_config("beacon", (source, other_source), target), tmp_path / "run")
    lines = metrics(tmp_path / "run", "refresh")
    assert lines[0]["step"] == 0
    for line in lines:
        mass = line["mass/sim"] + line["mass/other"]
        assert line["mass/sim"] / mass == pytest.approx(line["domain_weight/sim"])
        assert mass + line["mass/real"] == pytest.approx(14 + 36)


def test_mass_leaves_a_domain_with_corrupted_actions_in_a_few_refreshes(tmp_path: Path) -> None:
    """Two sources that differ in nothing but their actions, which are noise in one."""
    clean = make_dataset(tmp_path / "clean.hdf5", 5, seed=1)
    corrupted = make_dataset(tmp_path / "corrupted.hdf5", 5, seed=2)
    target = make_dataset(tmp_path / "real.hdf5", 3, seed=3, background=(60, 50, 40))
    rng = np.random.default_rng(0)
    for path in (clean, corrupted, target):
        go_home(path, -1.0)
    with h5py.File(corrupted, "r+") as file:
        for demo in file["data"].values():
            demo["actions"][...] = rng.uniform(-1, 1, demo["actions"].shape)
    config = tiny_config(
        "beacon-paper",
        (corrupted, clean),
        target,
        options=replace(PAPER, warmup_epochs=2),  # of a policy that knows nothing, losses say nothing
        policy=FAST,
        steps=100,
        steps_per_epoch=20,
        batch_size=16,
        learning_rate=3e-3,
    )
    train(config, tmp_path / "run")
    lines = metrics(tmp_path / "run", "refresh")
    assert len(lines) == 3
    share = [line["mass/clean"] / (line["mass/clean"] + line["mass/corrupted"]) for line in lines]
    weight = [line["domain_weight/clean"] for line in lines]
    assert share[-1] > 0.9 and weight[-1] > 0.9, (share, weight)
    assert lines[-1]["q/mean/clean"] > 5 * lines[-1]["q/mean/corrupted"]
