"""BEACON's ablations, its multi-source form, and what may enter the weights in place of the loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from demonstrations import make_dataset
from sklearn.metrics import roc_auc_score
from tiny_runs import TINY, assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import PaperBeaconOptions
from beacon.methods.localized import LocalizedOptions
from beacon.methods.loss_signal import phase_baseline
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.weighting import WeightingConfig

FAST = replace(TINY, obs_steps=1, denoiser="mlp", mlp_width=64, mlp_blocks=2)
SHORT = LocalizedOptions(steps=10, evaluate_every=5)


def go_home(path: Path, way: float) -> None:
    """Let all actions point to the middle, which proprioception is enough to see, or away from it."""
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            hand = demo["obs/robot0_eef_pos"][:, :2]
            demo["actions"][:, :2] = way * np.clip(2 * hand, -1, 1)


@pytest.mark.parametrize("update", ["stochastic", "convex"])
@pytest.mark.parametrize("discrepancy", ["knn", "classifier", "localized"])
def test_all_six_ablations_train(update, discrepancy, source: Path, target: Path, tmp_path: Path) -> None:
    weighting = WeightingConfig(update=update, discrepancy=discrepancy)
    options = PaperBeaconOptions(weighting=weighting, localized=SHORT)
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
    pooled = PaperBeaconOptions(weighting=WeightingConfig(pool_sources=True, update="convex"))
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
        options=PaperBeaconOptions(warmup_epochs=2),  # of a policy that knows nothing, losses say nothing
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


def test_the_phase_baseline_takes_away_what_the_phase_explains() -> None:
    rng = np.random.default_rng(0)
    phase = rng.random(4000).astype(np.float32)
    on_target = np.arange(4000) < 1000
    losses = np.sin(3 * phase) + np.where(on_target, 0.0, 0.4) + 0.05 * rng.normal(size=4000)
    left = losses - phase_baseline(losses, phase, on_target, knots=10)
    assert abs(left[on_target].mean()) < 0.01
    assert left[~on_target].mean() == pytest.approx(0.4, abs=0.02)
    for members, level in ((on_target, 0.0), (~on_target, 0.4)):
        for start in np.arange(0, 1, 0.25):
            part = members & (phase >= start) & (phase < start + 0.25)
            assert left[part].mean() == pytest.approx(level, abs=0.03)
    assert abs(np.corrcoef(left[~on_target], phase[~on_target])[0, 1]) < 0.1


def test_phases_without_target_windows_borrow_from_their_neighbours() -> None:
    phase = np.array([0.0, 0.02, 0.5, 1.0], np.float32)
    baseline = phase_baseline(np.array([1.0, 1.0, 9.0, 9.0]), phase, np.array([True, True, False, False]))
    np.testing.assert_allclose(baseline, 1.0)


@pytest.mark.parametrize("signal", ["phase", "excess"])
@pytest.mark.parametrize("refresh", ["exact", "amortized"])
def test_other_signals_train_and_resume_exactly(
    signal, refresh, source: Path, target: Path, tmp_path: Path
) -> None:
    options = PaperBeaconOptions(loss_signal=signal, refresh=refresh)
    config = tiny_config("beacon-paper", source, target, options=options)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    assert (tmp_path / "whole" / "references").exists() == (signal == "excess")


def test_the_phase_signal_is_what_the_reweighter_sees(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = Trainer(
        tiny_config("beacon-paper", source, target, options=PaperBeaconOptions(loss_signal="phase")),
        RunFolder(tmp_path / "run"),
    )
    report = trainer.method.between_epochs(0)
    assert report is not None and report.losses is not None
    windows = trainer.windows
    expected = report.losses - phase_baseline(report.losses, windows.phase, windows.domain == 1)
    np.testing.assert_allclose(trainer.method.state_dict()["reweighter/losses"], expected)


def test_excess_over_the_reference_finds_demonstrations_that_contradict_the_target(tmp_path: Path) -> None:
    """Half of the source moves away from where the target goes, which its observations do not show."""
    mirrored = make_dataset(tmp_path / "mirrored.hdf5", 12, steps=8, seed=1)
    clean = make_dataset(tmp_path / "clean.hdf5", 12, steps=8, seed=2)
    target = make_dataset(tmp_path / "real.hdf5", 8, steps=8, seed=3, background=(60, 50, 40))
    for path, way in ((mirrored, 1.0), (clean, -1.0), (target, -1.0)):
        go_home(path, way)
    options = PaperBeaconOptions(loss_signal="excess", reference_share=1.0, features="obs")
    config = tiny_config(
        "beacon-paper",
        (mirrored, clean),
        target,
        options=options,
        data={"cameras": ()},
        policy=FAST,
        steps=200,
        steps_per_epoch=100,
        batch_size=32,
        learning_rate=5e-3,
    )
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    trainer.folder.path.mkdir()
    trainer.run()
    windows = trainer.windows
    everything = np.arange(len(windows))
    losses = trainer.context.measure(everything, 16, 99).losses.double().numpy()
    signal = trainer.method._signal(losses)
    means = np.bincount(windows.episode, signal) / np.bincount(windows.episode)
    of_source = windows.episode_domain < 2
    assert roc_auc_score(windows.episode_domain[of_source] == 0, means[of_source]) > 0.75


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference_share": 0.0}, "--reference-share 0.0: must be above 0 and at most 1"),
        ({"reference_share": 1.5}, "--reference-share 1.5: must be above 0 and at most 1"),
        ({"phase_knots": 0}, "--phase-knots 0: must be at least 1"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        PaperBeaconOptions(**options)
