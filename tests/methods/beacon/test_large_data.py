"""Refreshes of many windows cost a bounded share of the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beacon_runs import make_trainer
from tiny_runs import assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.data import scratch_tables
from beacon.errors import UserError
from beacon.methods import PAPER
from beacon.methods.beacon.large_data import choose_old, nearest_measured
from beacon.methods.beacon.measurement import ReuseGradientSteps
from beacon.plain import changed
from beacon.training import train

# A pass over the windows takes more than one epoch: bounded, as millions are by default.
BOUNDED: dict[str, Any] = {
    "part": "reuse-gradient-steps",
    "max_age": 1,
    "bounded_beyond": 1,
    "refreshes_per_pass": 1,
    "sweep_share": 0.25,
}


def test_a_share_of_old_windows_is_chosen() -> None:
    epochs = np.array([-1, -1, -1, -1, 2, -1, 0, 1])
    episodes = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    old = np.array([0, 1, 2, 3, 5, 6, 7])
    # One of the demonstration without any measurement, then never measured ones, then the oldest.
    assert choose_old(old, epochs, episodes, 0).tolist() == [0]
    assert choose_old(old, epochs, episodes, 3).tolist() == [0, 1, 3]
    assert choose_old(old, epochs, episodes, 6).tolist() == [0, 1, 2, 3, 5, 6]
    assert choose_old(old, epochs, episodes, 7).tolist() == old.tolist()


def test_windows_without_a_measurement_take_that_of_the_nearest() -> None:
    epochs, episodes = np.array([-1, 3, -1, -1, 3, -1, 1, -1, -1]), np.array([0, 0, 0, 0, 0, 1, 1, 1, 2])
    missing, nearest = nearest_measured(epochs, episodes)
    assert missing.tolist() == [0, 2, 3, 5, 7, 8]
    assert nearest.tolist() == [1, 1, 4, 6, 6, 6]  # of another demonstration only where the own has none
    for nothing in (np.full(3, -1), np.zeros(3, np.int64)):
        assert not nearest_measured(nothing, np.zeros(3, np.int64))[0].size


def test_refreshes_are_rare_and_compute_few_windows(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, epochs=12, measurement=BOUNDED)
    size, seen_an_epoch = len(trainer.windows), 16
    pace = size // seen_an_epoch
    assert pace > 1
    trainer.folder.path.mkdir()
    trainer.run()
    lines = metrics(tmp_path / "run", "refresh")
    assert [line["epoch"] for line in lines] == list(range(pace, 12, pace))
    demos = len(trainer.windows.episode_length)
    most = int(0.25 * pace * seen_an_epoch)
    assert all(line["swept_windows"] <= most + demos for line in lines)
    assert lines[0]["swept_windows"] > 0
    method = trainer.method
    assert method.reweighter.planned_refreshes == len(lines)
    weights = method.reweighter.weights
    assert np.isfinite(weights).all() and len(np.unique(weights)) > 1


def test_never_measured_windows_have_their_neighbours_values(
    source: Path, target: Path, tmp_path: Path
) -> None:
    trainer = make_trainer(source, target, tmp_path, measurement=BOUNDED)
    measurement = trainer.method._measurement
    measured = measurement.at(1)  # nothing was seen yet: a share of all, at least one of every demonstration
    missing, nearest = nearest_measured(measurement.epoch, trainer.windows.episode)
    assert 0 < len(missing) < len(trainer.windows)
    assert (trainer.windows.episode[missing] == trainer.windows.episode[nearest]).all()
    assert np.array_equal(measured.losses[missing], measured.losses[nearest])
    assert np.array_equal(measured.embeddings[missing], measured.embeddings[nearest])


def test_a_bounded_run_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    options = changed(PAPER, {"measurement": BOUNDED, "sampling": "proportional"})
    config = tiny_config("beacon-paper", source, target, options=options, steps=24)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 7, 13, 19)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_there_is_a_refresh_in_a_run_shorter_than_a_pass(source: Path, target: Path, tmp_path: Path) -> None:
    for warmup in (0, 2):
        options: dict[str, Any] = {
            "measurement": {**BOUNDED, "refreshes_per_pass": 1},
            "warmup_epochs": warmup,
        }
        trainer = make_trainer(source, target, tmp_path, epochs=3, **options)
        assert sum(trainer.method.between_epochs(epoch) is not None for epoch in range(3)) == 1


def test_small_data_are_measured_as_ever(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, measurement={"part": "reuse-gradient-steps"})
    options = trainer.config.options.measurement
    assert options.pace(trainer.context) == 1 and not options.is_bounded(trainer.context)
    assert trainer.method.between_epochs(1).scalars["swept_windows"] == len(trainer.windows)


@pytest.mark.parametrize("bad", [{"bounded_beyond": -1}, {"refreshes_per_pass": 0}, {"sweep_share": -0.1}])
def test_bounds_that_make_no_sense(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(UserError, match=f"--measurement.{name.replace('_', '-')}"):
        ReuseGradientSteps(**bad)


def test_tables_in_files_change_nothing(
    source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remembered embeddings and action chunks that are mapped from files, as those of millions are."""
    options = changed(PAPER, {"measurement": BOUNDED, "discrepancy": "knn-joint"})
    config = tiny_config("beacon-paper", source, target, options=options, steps=16)
    train(config, tmp_path / "memory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(scratch_tables, "MAPPED_BEYOND", 0)
    train_with_stops(config, tmp_path / "files", 9)
    assert (tmp_path / "cache" / "beacon" / "frames").exists()
    assert_same_runs(tmp_path / "memory", tmp_path / "files")
