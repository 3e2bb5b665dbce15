"""What may enter the weights in place of the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beacon_runs import FAST, go_home, make_trainer
from demonstrations import make_dataset
from sklearn.metrics import roc_auc_score
from tiny_runs import assert_same_runs, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import PAPER
from beacon.methods.beacon.loss_signal import phase_baseline
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer, train

EXCESS = {"part": "excess-over-target"}


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


@pytest.mark.parametrize("signal", ["above-phase-baseline", "excess-over-target"])
@pytest.mark.parametrize("measurement", ["sweep-all", "reuse-gradient-steps"])
def test_other_signals_train_and_resume_exactly(
    signal: str, measurement: str, source: Path, target: Path, tmp_path: Path
) -> None:
    options = changed(PAPER, {"loss_signal": signal, "measurement": measurement})
    config = tiny_config("beacon-paper", source, target, options=options)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    assert (tmp_path / "whole" / "references").exists() == (signal == "excess-over-target")


def test_the_phase_signal_is_what_the_reweighter_sees(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, loss_signal="above-phase-baseline")
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
    options = changed(PAPER, {"loss_signal": {**EXCESS, "reference_share": 1.0}, "features": "obs"})
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


def test_the_reference_is_measured_once(source: Path, target: Path, tmp_path: Path) -> None:
    """A signal that has taken up its state asks no reference policy any more."""
    trainer = make_trainer(source, target, tmp_path, loss_signal="excess-over-target")
    trainer.folder.path.mkdir()
    report = trainer.method.between_epochs(0)
    assert report is not None and report.losses is not None
    state = trainer.method.state_dict()
    signal = state["loss_signal/losses"] - report.losses
    np.testing.assert_array_equal(state["reweighter/losses"], signal)
    (reference,) = (trainer.folder.path / "references").iterdir()
    reference.unlink()
    again = make_trainer(source, target, tmp_path, loss_signal="excess-over-target").method
    again.load_state_dict(state)
    np.testing.assert_array_equal(again._signal(report.losses), signal)
    assert not reference.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**EXCESS, "reference_share": 0.0}, "reference-share 0.0: must be above 0 and at most 1"),
        ({**EXCESS, "reference_share": 1.5}, "reference-share 1.5: must be above 0 and at most 1"),
        ({**EXCESS, "draws": 0}, "--loss-signal.draws 0: must be at least 1"),
        ({"part": "above-phase-baseline", "knots": 0}, "--loss-signal.knots 0: must be at least 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        changed(PAPER, {"loss_signal": options})
