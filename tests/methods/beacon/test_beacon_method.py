"""BEACON as a method: when it refreshes, what it measures, and how it draws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from beacon_runs import make_trainer
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
from beacon.methods import PAPER, CoTrainingOptions
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.weighting import DiscrepancyWarning

REUSE = {"part": "reuse-gradient-steps"}


def test_frozen_at_one_it_is_co_training_bit_for_bit(source: Path, target: Path, tmp_path: Path) -> None:
    frozen = changed(PAPER, {"weighting": {"p0": "ones", "alpha": 1.0, "solver": {"eta_q": 0.0}}})
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
    frozen = changed(PAPER, {"weighting": {"p0": "ones", "alpha": 0.25, "solver": {"eta_q": 0.0}}})
    lengths = []
    for name, options in (("beacon-paper", frozen), ("cotrain", CoTrainingOptions(ratio="natural"))):
        config = tiny_config(name, source, target, options=options, gradient_clip=1e-3, steps=2)
        (tmp_path / name).mkdir()
        trainer = Trainer(config, RunFolder(tmp_path / name))
        mean = trainer.method.mean_weight
        trainer.run()
        moments = [state["exp_avg"].flatten() for state in trainer.optimizer.state.values()]
        lengths.append(float(torch.cat(moments).norm()) / mean)
        if name == "beacon-paper":  # 45 source and 14 target windows
            assert mean == pytest.approx((14 + 0.25 * 45) / 59)
    assert mean == 1.0
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        # Before epochs K_q, 2 K_q, … counted from 1.
        ({"refresh_every": 2}, [1, 3, 5]),
        ({"refresh_every": 3}, [2, 5]),
        ({"refresh_every": 4}, [3]),
        ({"refresh_every": 6}, [5]),
        # Of the epochs after the warm-up.
        ({"warmup_epochs": 3}, [3, 4, 5]),
        ({"warmup_epochs": 1, "refresh_every": 3}, [3]),
        ({"measurement": REUSE}, [1, 2, 3, 4, 5]),
        ({"measurement": REUSE, "warmup_epochs": 2, "refresh_every": 2}, [3, 5]),
    ],
)
def test_when_it_refreshes(
    options: dict[str, Any], expected: list[int], source: Path, target: Path, tmp_path: Path
) -> None:
    method = make_trainer(source, target, tmp_path, **options).method
    assert [epoch for epoch in range(6) if method.between_epochs(epoch) is not None] == expected
    assert method.reweighter.refresh_count == len(expected) == method.options.refresh_count(6)
    assert method.reweighter.planned_refreshes == len(expected)


def test_refreshes_of_a_run_are_those_that_its_log_has(source: Path, target: Path, tmp_path: Path) -> None:
    options = replace(PAPER, refresh_every=2)
    train(tiny_config("beacon-paper", source, target, options=options, steps=10), tmp_path / "run")
    lines = metrics(tmp_path / "run", "refresh")
    assert [(line["epoch"], line["step"]) for line in lines] == [(1, 2), (3, 6)]


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
    for options in ({}, {"refresh_every": 2}, {"warmup_epochs": 3}, {"measurement": REUSE}):
        method = make_trainer(source, target, tmp_path, **options).method
        refreshes = sum(method.between_epochs(epoch) is not None for epoch in range(6))
        solver, planned = method.reweighter.config.solver, method.reweighter.planned_refreshes
        travelled = sum(steps * eta for steps, eta in (solver.schedule(n, planned) for n in range(refreshes)))
        assert travelled == pytest.approx(6, abs=0.0101)


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
    options = replace(PAPER, sampling="proportional", refresh_every=2)
    config = tiny_config("beacon-paper", source, target, options=options, steps=8)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 7)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_measurements_of_a_nan_policy_end_the_run(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path)
    with torch.no_grad():
        next(trainer.policy.parameters()).fill_(float("nan"))
    with pytest.raises(RunError, match="no longer finite"):
        trainer.method.between_epochs(0)


def test_contradictions_are_refused_before_data_is_read(tmp_path: Path) -> None:
    absent = tmp_path / "absent.hdf5"
    with pytest.raises(UserError, match="no refresh in 3 epochs with 3 to warm up"):
        tiny_config("beacon-paper", absent, absent, options=replace(PAPER, warmup_epochs=3))
    with pytest.raises(UserError, match=r"no refresh in 3 epochs with 0 to warm up; take more --steps, or"):
        tiny_config("beacon-paper", absent, absent, options=replace(PAPER, refresh_every=4))
    # An option of another part.
    with pytest.raises(
        UserError, match=r"discrepancy\.exclude_same_demo: there is no such option; there are"
    ):
        changed(PAPER, {"discrepancy": {"part": "classifier", "exclude_same_demo": True}})


def test_impossible_budget_is_the_users_error(source: Path, target: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="alpha: the weights cannot sum to"):
        make_trainer(source, target, tmp_path, weighting={"alpha": 9.0})


def test_without_cameras_there_is_no_vision(source: Path, target: Path, tmp_path: Path) -> None:
    blind: dict[str, Any] = {"cameras": ()}
    with pytest.raises(UserError, match="--features obs"):
        Trainer(tiny_config("beacon-paper", source, target, data=blind), RunFolder(tmp_path / "run"))
    config = tiny_config("beacon-paper", source, target, options=replace(PAPER, features="obs"), data=blind)
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
