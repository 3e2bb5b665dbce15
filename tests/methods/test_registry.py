"""What holds for every method, whatever it does: one test for the whole registry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import OPTIMIZATION, assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.errors import UserError
from beacon.methods import METHODS
from beacon.policy import DiffusionPolicy, load_policy
from beacon.runs import DomainRecord, RunFolder
from beacon.training import Trainer, train

pytestmark = pytest.mark.parametrize("name", METHODS)


def test_it_trains_saves_and_resumes_exactly(name: str, source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(name, source, target)
    checkpoint = train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 3, 6)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")

    # The same number of gradient steps for all methods, and every one of them changes the policy.
    assert checkpoint.name == f"{OPTIMIZATION.steps:08d}"
    optimizer = load_file(checkpoint / "optimizer.safetensors")
    taken = {float(value) for key, value in optimizer.items() if key.startswith("step/")}
    assert taken == {float(OPTIMIZATION.steps)}
    trained = load_policy(tmp_path / "whole", ema=False).policy
    start = DiffusionPolicy(trained.spec, trained.config, seed=OPTIMIZATION.seed)
    for (parameter, after), before in zip(trained.named_parameters(), start.parameters(), strict=True):
        assert torch.isfinite(after).all()
        assert not torch.equal(after, before), parameter
    assert len(metrics(tmp_path / "whole", "train")) == OPTIMIZATION.steps

    # The same target data for all methods.
    records = json.loads((tmp_path / "whole" / "data.json").read_text())
    expected = DomainRecord.of(EpisodeSet.load(target), is_target=True)
    assert records[-1]["demos"] == list(expected.demos)
    assert (records[-1]["actions"], records[-1]["frames"]) == (expected.actions, expected.frames)


def test_batches_are_whole_and_repeatable(name: str, source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(name, source, target, batch_size=16)
    folder = RunFolder(tmp_path / "run")
    first, second = Trainer(config, folder), Trainer(config, folder)
    drawn = [first.method.batches(epoch) for epoch in range(3)]
    for epoch in (2, 0, 1):  # whatever was drawn before
        assert np.array_equal(drawn[epoch], second.method.batches(epoch))
    for batches in drawn:
        assert batches.shape[0] == OPTIMIZATION.steps_per_epoch
        assert batches.min() >= 0 and batches.max() < len(first.windows)
    assert not np.array_equal(drawn[0], drawn[1])
    if METHODS[name].needs_target:
        of_target = np.isin(
            np.concatenate([batches.ravel() for batches in drawn]), first.context.target_windows
        )
        assert of_target.any()


def test_it_refuses_what_it_cannot_do(name: str, source: Path, target: Path, tmp_path: Path) -> None:
    kind = METHODS[name]
    if kind.needs_source:
        with pytest.raises(UserError, match="needs source demonstrations; say --source"):
            tiny_config(name, None, target)
    else:
        Trainer(tiny_config(name, None, target), RunFolder(tmp_path / "run"))
    if kind.needs_target:
        with pytest.raises(UserError, match="needs target demonstrations; say --target"):
            tiny_config(name, source, None)
    else:
        Trainer(tiny_config(name, source, None), RunFolder(tmp_path / "run"))


def test_no_option_has_a_name_that_the_run_has_taken(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--method", name, "--help"]) == 0
    assert "--out" in capsys.readouterr().out


def test_it_does_not_take_up_the_state_of_another(
    name: str, source: Path, target: Path, tmp_path: Path
) -> None:
    trainer = Trainer(tiny_config(name, source, target), RunFolder(tmp_path / "run"))
    with pytest.raises(UserError, match="the checkpoint belongs to"):
        trainer.method.load_state_dict({"nonsense/entry": np.zeros(3)})
