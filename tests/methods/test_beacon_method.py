"""BEACON as a method: when it refreshes, what it measures, and how it draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from demonstrations import make_dataset
from tiny_runs import (
    OPTIMIZATION,
    assert_same_runs,
    assert_same_tensors,
    metrics,
    tiny_config,
    train_with_stops,
)

from beacon.errors import RunError, UserError
from beacon.methods import CoTrainingOptions, Measurements, PaperBeaconOptions
from beacon.policy import Encoding
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.weighting import DiscrepancyWarning, WeightingConfig


def make_trainer(source: Path, target: Path, tmp_path: Path, **options: Any) -> Trainer:
    epochs = options.pop("epochs", 6)
    weighting = WeightingConfig(**options.pop("weighting", {}))
    chosen = PaperBeaconOptions(weighting=weighting, **options)
    config = tiny_config("beacon-paper", source, target, options=chosen, steps=2 * epochs)
    return Trainer(config, RunFolder(tmp_path / "run"))


def test_frozen_at_one_it_is_co_training_bit_for_bit(source: Path, target: Path, tmp_path: Path) -> None:
    frozen = PaperBeaconOptions(weighting=WeightingConfig(p0="ones", alpha=1.0, eta_q=0.0))
    train(tiny_config("beacon-paper", source, target, options=frozen), tmp_path / "beacon")
    natural = CoTrainingOptions(ratio="natural")
    train(tiny_config("cotrain", source, target, options=natural), tmp_path / "cotrain")
    for step in ("00000002", "00000004", "00000006"):
        for file in ("policy", "ema", "optimizer"):
            name = f"checkpoints/{step}/{file}.safetensors"
            assert_same_tensors(tmp_path / "beacon" / name, tmp_path / "cotrain" / name)
    assert metrics(tmp_path / "beacon", "train") == metrics(tmp_path / "cotrain", "train")
    weights = pq.read_table(tmp_path / "beacon" / "weights" / "windows-00000006.parquet")["weight"]
    assert set(weights.to_pylist()) == {1.0}


def test_gradients_are_bound_as_much_as_those_of_other_methods(
    source: Path, target: Path, tmp_path: Path
) -> None:
    frozen = PaperBeaconOptions(weighting=WeightingConfig(p0="ones", alpha=0.25, eta_q=0.0))
    lengths = []
    for name, options in (("beacon-paper", frozen), ("cotrain", CoTrainingOptions(ratio="natural"))):
        config = tiny_config(name, source, target, options=options, gradient_clip=1e-3, steps=2)
        (tmp_path / name).mkdir()
        trainer = Trainer(config, RunFolder(tmp_path / name))
        mean = trainer.method.mean_weight
        trainer.run()
        moments = [state["exp_avg"].flatten() for state in trainer.optimizer.state.values()]
        lengths.append(float(torch.cat(moments).norm()) / mean)
    assert mean == 1.0
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"refresh_every": 2}, [0, 2, 4]),
        ({"warmup_epochs": 3}, [3, 4, 5]),
        ({"warmup_epochs": 1, "refresh_every": 3}, [1, 4]),
        ({"refresh": "amortized"}, [1, 2, 3, 4, 5]),
        ({"refresh": "amortized", "warmup_epochs": 2, "refresh_every": 2}, [2, 4]),
    ],
)
def test_when_it_refreshes(
    options: dict[str, Any], expected: list[int], source: Path, target: Path, tmp_path: Path
) -> None:
    method = make_trainer(source, target, tmp_path, **options).method
    assert [epoch for epoch in range(6) if method.between_epochs(epoch) is not None] == expected
    assert method.reweighter.refreshes == len(expected)


def test_before_the_first_refresh_all_weigh_their_mean(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, warmup_epochs=1, weighting={"alpha": 0.3})
    method, windows = trainer.method, len(trainer.windows)
    targets = len(trainer.context.target_windows)
    mean = (targets + 0.3 * (windows - targets)) / windows
    index = torch.arange(windows)
    assert method.weights(index).tolist() == pytest.approx([mean] * windows)
    assert method.weight_decay == pytest.approx(1e-6 * mean)
    assert method.between_epochs(0) is None
    assert method.between_epochs(1) is not None
    assert torch.equal(method.weights(index), torch.tensor(method.reweighter.weights, dtype=torch.float32))
    assert method.weight_decay == 1e-6 * method.reweighter.weights.max()


def test_steps_of_the_weights_add_up_to_six(source: Path, target: Path, tmp_path: Path) -> None:
    for options in ({}, {"refresh_every": 2}, {"warmup_epochs": 3}, {"refresh": "amortized"}):
        method = make_trainer(source, target, tmp_path, **options).method
        refreshes = sum(method.between_epochs(epoch) is not None for epoch in range(6))
        config, planned = method.reweighter.config, method.reweighter._planned_refreshes
        travelled = sum(steps * eta for steps, eta in (config.steps(n, planned) for n in range(refreshes)))
        assert travelled == pytest.approx(6, abs=0.0101)


def test_draws_and_noise_of_a_refresh(source: Path, target: Path, tmp_path: Path) -> None:
    """More draws lie closer to the mean over many; every refresh has noise of its own."""
    trainer = make_trainer(source, target, tmp_path)
    everything = trainer.measurer.everything
    truth = trainer.context.measure(everything, 400, 99).losses
    errors = {
        draws: np.mean(
            [(trainer.context.measure(everything, draws, n).losses - truth).square().mean() for n in range(5)]
        )
        for draws in (1, 16)
    }
    assert errors[16] < errors[1] / 6
    one, again, other = (trainer.context.measure(everything, 1, number).losses for number in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    many = make_trainer(source, target, tmp_path, refresh_draws=16).method.between_epochs(0)
    assert np.array_equal(many.losses, trainer.context.measure(everything, 16, 0).losses.double().numpy())


def test_loss_average(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, weighting={"loss_ema": 0.75})
    everything, method = trainer.measurer.everything, trainer.method
    method.between_epochs(0)
    method.between_epochs(1)
    first, second = (
        trainer.context.measure(everything, 1, number).losses.double().numpy() for number in (0, 1)
    )
    expected = 0.75 * first + 0.25 * second
    assert method.state_dict()["reweighter/losses"] == pytest.approx(expected, rel=1e-12)


def test_proportional_sampling(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, sampling="proportional")
    method = trainer.method
    method.between_epochs(0)
    q = method.reweighter.weights
    drawn = np.concatenate([method.batches(epoch).ravel() for epoch in range(400)])
    frequency = np.bincount(drawn, minlength=len(q)) / len(drawn)
    assert frequency == pytest.approx(q / q.sum(), abs=4 * np.sqrt(1 / len(drawn) / len(q)))
    assert method.weights(torch.arange(len(q))) is None


def test_proportional_sampling_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    options = PaperBeaconOptions(sampling="proportional", refresh_every=2)
    config = tiny_config("beacon-paper", source, target, options=options, steps=8)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 7)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_amortized_remembers_what_the_steps_saw(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, refresh="amortized", max_age=2)
    method, size, width = trainer.method, len(trainer.windows), trainer.policy.vision_dim
    assert method.between_epochs(0) is None

    def observe(index: list[int], value: float) -> None:
        encoding = Encoding(torch.full((len(index), width), value), torch.zeros(len(index), 99))
        method.observe(np.array(index), encoding, torch.arange(len(index)) + value)

    seen = list(range(size - 4))
    observe(seen, 0.5)
    observe([3, 5, 3], 10.0)  # a window that comes twice: the last one counts
    report = method.between_epochs(1)
    assert report.scalars["swept_windows"] == 4
    expected = np.arange(size - 4) + 0.5
    expected[[3, 5]] = 12.0, 11.0
    assert np.array_equal(report.losses[:-4], expected)
    stale = np.arange(size - 4, size)
    assert np.array_equal(report.losses[-4:], trainer.context.measure(stale, 1, 1).losses.double().numpy())
    assert (method._memory.embeddings[seen[6:]] == 0.5).all()

    # Nothing more is observed: windows grow too old, the ones that the refresh swept an epoch later.
    assert [method.between_epochs(e).scalars["swept_windows"] for e in (2, 3, 4)] == [0, size - 4, 4]


def test_amortized_uses_the_losses_of_real_steps(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, refresh="amortized", features="obs", max_age=99)
    method = trainer.method
    kept: dict[int, float] = {}
    original = method.observe

    def spy(index: np.ndarray, encoding: Encoding, losses: torch.Tensor) -> None:
        assert not losses.requires_grad and not encoding.observation.requires_grad
        kept.update(zip(index.tolist(), losses.tolist(), strict=True))
        original(index, encoding, losses)

    method.observe = spy
    trainer.folder.path.mkdir()
    trainer.run()
    assert kept
    for window, loss in kept.items():
        assert method._memory.losses[window] == np.float32(loss)
    assert method._memory.embeddings.shape == (len(trainer.windows), trainer.policy.condition_dim)


def test_amortized_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    options = PaperBeaconOptions(refresh="amortized", max_age=1, refresh_every=2)
    config = tiny_config("beacon-paper", source, target, options=options, steps=12)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 5, 10, 12)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    swept = [line["swept_windows"] for line in metrics(tmp_path / "whole", "refresh")]
    assert swept[0] > 0 and len(swept) == 3


def test_measurements_of_a_nan_policy_end_the_run(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path)
    with torch.no_grad():
        next(trainer.policy.parameters()).fill_(float("nan"))
    with pytest.raises(RunError, match="no longer finite"):
        trainer.method.between_epochs(0)


def test_contradictions_are_refused_before_data_is_read(tmp_path: Path) -> None:
    absent = tmp_path / "absent.hdf5"
    with pytest.raises(UserError, match="no refresh in 3 epochs with 3 to warm up"):
        tiny_config("beacon-paper", absent, absent, options=PaperBeaconOptions(warmup_epochs=3))
    with pytest.raises(UserError, match="--exclude-same-demo is for --discrepancy knn"):
        PaperBeaconOptions(weighting=WeightingConfig(discrepancy="classifier"), exclude_same_demo=True)


def test_impossible_budget_is_the_users_error(source: Path, target: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="alpha: the weights cannot sum to"):
        make_trainer(source, target, tmp_path, weighting={"alpha": 9.0})


def test_without_cameras_there_is_no_vision(source: Path, target: Path, tmp_path: Path) -> None:
    blind: dict[str, Any] = {"cameras": ()}
    with pytest.raises(UserError, match="--features obs"):
        Trainer(tiny_config("beacon-paper", source, target, data=blind), RunFolder(tmp_path / "run"))
    config = tiny_config(
        "beacon-paper", source, target, options=PaperBeaconOptions(features="obs"), data=blind
    )
    train(config, tmp_path / "run")
    assert len(metrics(tmp_path / "run", "refresh")) == OPTIMIZATION.epochs


def test_a_single_target_demonstration(source: Path, tmp_path: Path) -> None:
    one = make_dataset(tmp_path / "one.hdf5", 1, steps=7, seed=9)
    with pytest.warns(UserWarning, match="a single demonstration.*less certain"):
        train(tiny_config("beacon-paper", source, one), tmp_path / "run")
    assert len(metrics(tmp_path / "run", "train")) == OPTIMIZATION.steps


def test_a_single_target_window(source: Path, tmp_path: Path) -> None:
    one = make_dataset(tmp_path / "one.hdf5", 1, steps=1, seed=9)
    with (
        pytest.warns(DiscrepancyWarning, match="no spread"),
        pytest.warns(UserWarning, match="a single demonstration"),
    ):
        train(tiny_config("beacon-paper", source, one), tmp_path / "run")


def test_features_choose_the_embedding(source: Path, target: Path, tmp_path: Path) -> None:
    found = Measurements(torch.zeros(2), torch.ones(2, 3), torch.zeros(2, 5))
    for features, width in (("vision", 3), ("obs", 5)):
        method = make_trainer(source, target, tmp_path, features=features).method
        assert method._embedding(found).shape == (2, width)
