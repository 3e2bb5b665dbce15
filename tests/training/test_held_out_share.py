"""``--validation 0.1``: a share of the target's demonstrations is held out and not trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from demonstrations import make_dataset
from tiny_runs import tiny_config

from beacon.training import train
from beacon.training.loading import load_training_sets, load_validation_set


def test_a_share_is_held_out_and_measured(tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "sim.hdf5", 4, steps=6, seed=1)
    target = make_dataset(tmp_path / "real.hdf5", 5, steps=6, seed=2)
    config = tiny_config("cotrain", source, target, data={"validation": Path("0.4")})
    sets = load_training_sets(config.data)
    held_out = load_validation_set(Path("0.4"), config.data, sets[-1])
    assert len(sets[-1]) == 3 and len(held_out) == 2
    assert not set(sets[-1].episode_names) & set(held_out.episode_names)
    train(config, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("validation" in json.dumps(line) for line in lines)


def test_training_demonstrations_as_held_out_ones(tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "sim.hdf5", 2, steps=6, seed=1)
    target = make_dataset(tmp_path / "real.hdf5", 2, steps=6, seed=2)
    options = tiny_config("cotrain", source, target).data
    with pytest.warns(match="the training demonstrations"):
        load_training_sets(replace(options, validation=target))
