"""The weight decay of BEACON is γ‖q‖_∞, and γ is the run's --weight-decay unless it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import metrics, tiny_config

from beacon.cli.train import parse
from beacon.methods import METHODS, PAPER
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer

DATA = ("--source", "a.hdf5", "--target", "b.hdf5", "--out", "run")


def make_trainer(
    method: str, source: Path, target: Path, run: Path, options: Any = None, **optimization: Any
) -> Trainer:
    trainer = Trainer(tiny_config(method, source, target, options=options, **optimization), RunFolder(run))
    run.mkdir()
    return trainer


@pytest.mark.parametrize("method", ["beacon", "beacon-paper"])
def test_gamma_follows_the_weight_decay_and_arrives_in_the_optimiser(
    method: str, source: Path, target: Path, tmp_path: Path
) -> None:
    assert METHODS[method].default_options().weighting.gamma is None
    assert parse(["--method", method, "--weight-decay", "1e-2", *DATA]).optimization.weight_decay == 1e-2
    trainer = make_trainer(method, source, target, tmp_path / "run", weight_decay=1e-2)
    seen: list[tuple[float, float]] = []
    observe = trainer.method.observe

    def spy(*arguments: Any) -> None:
        seen.append((trainer.optimizer.param_groups[0]["weight_decay"], trainer.method.reweighter.max))
        observe(*arguments)

    trainer.method.observe = spy
    trainer.run()
    assert len(seen) == 6
    for decay, largest in seen:
        assert decay == 1e-2 * largest
    last = metrics(tmp_path / "run", "refresh")[-1]
    assert last["q/max"] == seen[-1][1]
    # The capacity term has the same coefficient.
    assert trainer.method.reweighter.config.gamma == 1e-2
    assert last["objective/capacity"] > 1e-2 * last["q/max"]  # R(θ) of any policy is above 1


def test_a_gamma_that_is_said_wins(source: Path, target: Path, tmp_path: Path) -> None:
    options = changed(PAPER, {"weighting": {"gamma": 1e-3}})
    trainer = make_trainer("beacon-paper", source, target, tmp_path / "run", options, weight_decay=1e-2)
    trainer.run()
    assert trainer.optimizer.param_groups[0]["weight_decay"] == 1e-3 * trainer.method.reweighter.max
    none = changed(PAPER, {"weighting": {"gamma": 0.0}})
    trainer = make_trainer("beacon-paper", source, target, tmp_path / "none", none, weight_decay=1e-2)
    trainer.run()
    assert trainer.optimizer.param_groups[0]["weight_decay"] == 0.0
