"""The target has more than its natural share only where source and target move and are sensed alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moving_robot import robot
from tiny_runs import tiny_config

from beacon.data import Domains, RobomimicWriter, Windows
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError
from beacon.methods.base import Measurements, MethodContext
from beacon.methods.beacon.options import PAPER, RECOMMENDED, BeaconOptions
from beacon.methods.beacon.target_share import known_target_factor
from beacon.runs import RunFolder
from beacon.training import Trainer
from beacon.weighting.config import target_share

SAME, SLOW = robot(6, 1), robot(6, 1, gain=0.6)


def nothing_measured(*_: Any) -> Measurements:
    raise AssertionError("the share is known before anything is measured")


def asked(target: EpisodeSet, said: list[str], options: BeaconOptions = RECOMMENDED) -> Any:
    """What the method takes with a source of 50 demonstrations."""
    context = MethodContext(
        windows=Windows([robot(50, 0), target], obs_steps=1, horizon=8),
        domains=Domains(("sim",), "real"),
        seed=0,
        epochs=10,
        steps_per_epoch=10,
        batch_size=8,
        weight_decay=0.0,
        measure=nothing_measured,
        capacity=lambda: 0.0,
        remark=said.append,
    )
    return known_target_factor(options, context)


@pytest.mark.parametrize(
    ("target", "factor", "words"),
    [
        (SAME, "rule", "by the ratio rule, source and target move and are sensed alike"),
        (SLOW, "natural", "the natural one, the target moves or is sensed otherwise"),
        (robot(1, 1), "natural", "the natural one, the data do not tell"),
    ],
)
def test_the_data_decide(target: EpisodeSet, factor: str, words: str) -> None:
    said: list[str] = []
    assert asked(target, said) == factor
    assert len(said) == 1 and words in said[0]


def test_the_limit_is_an_option() -> None:
    generous = replace(RECOMMENDED, largest_dynamics_gap=1000.0)
    assert asked(SLOW, [], generous) == "rule"
    with pytest.raises(UserError, match="--largest-dynamics-gap 0"):
        replace(RECOMMENDED, largest_dynamics_gap=0)


@pytest.mark.parametrize("factor", [None, 4.0, "rule", "natural"])
def test_what_was_said_is_taken(factor: Any) -> None:
    said: list[str] = []
    options = replace(PAPER, weighting=replace(PAPER.weighting, target_factor=factor))
    assert asked(SLOW, said, options) == factor and said == []


@pytest.mark.parametrize(("target", "natural"), [(SAME, False), (SLOW, True)])
def test_the_weights_of_a_run_have_it(target: EpisodeSet, natural: bool, tmp_path: Path) -> None:
    paths = []
    for name, episodes in (("sim", robot(50, 0)), ("real", target)):
        paths.append(tmp_path / f"{name}.hdf5")
        with RobomimicWriter(paths[-1], env_args={"env_name": "Robot", "type": 1}) as writer:
            for start, length in zip(episodes.starts, episodes.lengths, strict=True):
                rows = slice(int(start), int(start + length))
                observations = {key: values[rows] for key, values in episodes.proprio.items()}
                writer.add_episode(f"demo_{start}", episodes.actions[rows], observations)
    options = replace(RECOMMENDED, features="obs")
    config = tiny_config("beacon", *paths, options=options, data={"proprio": ("position",)})
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    reweighter = trainer.method.reweighter  # type: ignore[attr-defined]
    source = np.arange(len(reweighter)) < 50 * 60
    reweighter.refresh(losses=np.full(len(reweighter), 0.1), discrepancies=source.astype(float))
    share = reweighter.weights[~source].sum() / reweighter.budget
    expected = (~source).mean() if natural else target_share(int((~source).sum()), int(source.sum()))
    assert share == pytest.approx(expected, rel=0.01)
