"""``beacon train --decisions``: dropped demonstrations are left out, kept ones have a least weight."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import TINY_OPTIONS, assert_same_runs, tiny_config, train_with_stops

from beacon.cli.main import main
from beacon.data import Windows
from beacon.data.decisions import DatasetDecisions
from beacon.methods import METHODS
from beacon.methods.kept import KeptDemonstrations, lift
from beacon.runs import Run, RunFolder
from beacon.training import train
from beacon.training.loading import kept_windows, load_training_sets
from beacon.training.trainer import Trainer

DROPPED = (DatasetDecisions("sim.hdf5", dropped=("demo_1", "demo_3")),)
KEPT = (DatasetDecisions("sim.hdf5", kept=("demo_0",)),)
BOTH = (DatasetDecisions("sim.hdf5", dropped=("demo_1",), kept=("demo_0",)),)


def write(file: Path, *decisions: tuple[str, str, str]) -> Path:
    keys = ("dataset", "demonstration", "decision")
    file.write_text("".join(json.dumps(dict(zip(keys, line, strict=True))) + "\n" for line in decisions))
    return file


def test_dropped_demonstrations_are_no_training_data(source: Path, target: Path) -> None:
    sets = load_training_sets(tiny_config("beacon", source, target, data={"decisions": DROPPED}).data)
    assert sets[0].episode_names == ["demo_0", "demo_2", "demo_4"]
    assert sets[1].episode_names == ["demo_0", "demo_1"]


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"target-only"}))
def test_every_method_trains_with_decisions(method: str, source: Path, target: Path, tmp_path: Path) -> None:
    train(tiny_config(method, source, target, data={"decisions": BOTH}), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert "demo_1" not in run.domains[0].demos and len(run.domains[0].demos) == 4
    if run.windows is not None:
        weight = run.windows.episode_means(run.windows.weight)
        before = weight[1:4].sum() / 4  # at most the mean of the method's own weights
        assert weight[0] >= before * (1 - 1e-6)


def test_a_run_with_decisions_resumes_to_the_bit(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("beacon", source, target, data={"decisions": BOTH})
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_kept_windows_are_drawn_in_proportion_to_lifted_weights(
    source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config("deminf", source, target, data={"decisions": KEPT}, steps=2000, steps_per_epoch=1000)
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    method = trainer.method
    assert isinstance(method, KeptDemonstrations)
    method.between_epochs(0)
    # Whatever the score said, the first demonstration is one that was not selected.
    left_out = np.asarray(method.method._draw_weights()).copy()  # type: ignore[attr-defined]
    members = kept_windows(trainer.windows, KEPT)
    others = np.flatnonzero((trainer.windows.domain == 0) & ~members)
    left_out[others] += left_out[members].sum() / len(others)
    left_out[members] = 0.0
    method.method._kept = others  # type: ignore[attr-defined]
    method._take_up(left_out)

    drawn = np.bincount(method.batches(1).ravel(), minlength=len(trainer.windows))
    share = drawn / drawn.sum()
    lifted = lift(left_out, members, trainer.windows.domain, 1.0)
    expected = lifted / lifted.sum()
    assert expected[members].sum() > 0.1
    assert share[members].sum() == pytest.approx(expected[members].sum(), abs=0.02)


def test_weighted_losses_are_lifted(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("beacon-paper", source, target, data={"decisions": KEPT})
    method = Trainer(config, RunFolder(tmp_path / "run")).method
    assert isinstance(method, KeptDemonstrations)
    method.between_epochs(0)
    index = torch.arange(len(method.context.windows))
    weights = method.weights(index)
    assert weights is not None
    domain = torch.from_numpy(method.context.windows.domain.astype(np.int64))
    mean = float(method.method.weights(index)[domain == 0].mean())  # type: ignore[index]
    assert float(weights[method._kept].min()) >= mean * (1 - 1e-6)


def test_the_command_line_takes_a_file_into_the_configuration(
    source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "d.jsonl", ("sim.hdf5", "demo_1", "drop"), ("sim.hdf5", "demo_0", "keep"))
    command = ["train", "--source", str(source), "--target", str(target), "--out", str(tmp_path / "run")]
    sizes = "--method cotrain --steps 2 --steps-per-epoch 2 --batch-size 8 --device cpu --no-tensorboard"
    assert main([*command, *sizes.split(), *TINY_OPTIONS, "--decisions", str(file)]) == 0
    assert "by decision 1 dropped and 1 kept" in capsys.readouterr().out
    assert Run(tmp_path / "run").option("data", "decisions") == [
        {"dataset": "sim.hdf5", "dropped": ["demo_1"], "kept": ["demo_0"]}
    ]
    assert (tmp_path / "run" / "decisions.jsonl").read_text().count("\n") == 2

    write(file, ("sim.hdf5", "demo_0", "drop"))  # the run keeps to what it was started with
    assert main(["train", "--resume", "--out", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    "line",
    [("sim.hdf5", "demo_9", "drop"), ("unknown.hdf5", "demo_0", "drop"), ("sim.hdf5", "demo_0", "burn")],
)
def test_unknown_names_are_one_line(
    line: tuple[str, str, str], source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "d.jsonl", line)
    command = ["train", "--source", str(source), "--target", str(target), "--out", str(tmp_path / "run")]
    assert main([*command, "--decisions", str(file)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "d.jsonl" in error
    assert not (tmp_path / "run").exists()


def test_dropping_all_is_refused(source: Path, target: Path) -> None:
    every = (DatasetDecisions("real.hdf5", dropped=("demo_0", "demo_1")),)
    with pytest.raises(ValueError, match="every demonstration was dropped"):
        load_training_sets(tiny_config("beacon", source, target, data={"decisions": every}).data)


def test_no_decisions_change_nothing(source: Path, target: Path) -> None:
    config = tiny_config("beacon", source, target)
    assert "decisions" not in config.to_dict()["data"] and "kept_floor" not in config.to_dict()["data"]
    windows = Windows(load_training_sets(config.data), 2, 8)
    assert not kept_windows(windows, ()).any()
