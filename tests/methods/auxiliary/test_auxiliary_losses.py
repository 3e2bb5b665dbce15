"""Auxiliary losses belong to the run, whatever its method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import (
    OPTIMIZATION,
    assert_same_runs,
    assert_same_tensors,
    metrics,
    tiny_config,
    train_with_stops,
)

from beacon.errors import UserError
from beacon.methods import AUXILIARY_LOSSES, METHODS
from beacon.methods.auxiliary import AuxiliaryLoss, FeatureDistance, FutureState
from beacon.methods.base import join_states, split_states
from beacon.plain import from_plain, to_plain
from beacon.policy import Encoding
from beacon.runs import RunFolder
from beacon.training import TrainConfig, Trainer, train
from beacon.training.stored_config import read_config

LAST = f"checkpoints/{OPTIMIZATION.steps:08d}"
# Whether source and target move alike or not.
ALWAYS: dict[str, Any] = {"largest_dynamics_gap": None}
BOTH = (FutureState(**ALWAYS, strength=0.5), FeatureDistance(strength=0.5))


def policy(run: Path) -> dict[str, torch.Tensor]:
    """The parameters at the end of a run."""
    return load_file(run / LAST / "policy.safetensors")


def differ(first: Path, second: Path) -> bool:
    a, b = policy(first), policy(second)
    return any(not torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("method", METHODS)
def test_any_method_may_have_them(method: str, source: Path, target: Path, tmp_path: Path) -> None:
    """It trains, ends elsewhere than without, and resumes to the bit."""
    config = tiny_config(method, source, target, auxiliary=(FutureState(**ALWAYS, strength=1.0),))
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 3, 6)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    assert all(torch.isfinite(value).all() for value in policy(tmp_path / "whole").values())
    train(tiny_config(method, source, target), tmp_path / "without")
    # The encoder of a method that draws one domain alone is moved, too: by the readout of that domain.
    assert differ(tmp_path / "whole", tmp_path / "without") == (method != "target-only")


@pytest.mark.parametrize("loss", BOTH, ids=[loss.part_name for loss in BOTH])
def test_each_changes_co_training_and_resumes_exactly(
    loss: AuxiliaryLoss, source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config("cotrain", source, target, auxiliary=(loss,), batch_size=32)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    train(tiny_config("cotrain", source, target, batch_size=32), tmp_path / "without")
    assert differ(tmp_path / "whole", tmp_path / "without")
    first, other = (metrics(tmp_path / name, "train") for name in ("whole", "without"))
    for name in ("loss/sim", "loss/real"):  # of the same policy: the auxiliary loss is not the policy's
        assert first[0][name] == other[0][name]
    assert first[0]["loss"] > other[0]["loss"]


def test_off_is_off_to_the_bit(source: Path, target: Path, tmp_path: Path) -> None:
    off = (FutureState(**ALWAYS, strength=0.0), FeatureDistance(strength=0.0))
    for method in ("cotrain", "beacon"):
        train(tiny_config(method, source, target, auxiliary=off), tmp_path / method / "off")
        train(tiny_config(method, source, target), tmp_path / method / "without")
        for step in ("00000002", "00000004", "00000006"):
            for file in ("policy", "ema", "optimizer"):
                name = f"checkpoints/{step}/{file}.safetensors"
                assert_same_tensors(tmp_path / method / "off" / name, tmp_path / method / "without" / name)
        assert metrics(tmp_path / method / "off") == metrics(tmp_path / method / "without")
    assert METHODS["beacon"].default_options() == tiny_config("beacon", source, target).options
    assert tiny_config("beacon", source, target).auxiliary == ()


def test_the_default_is_off_where_the_data_do_not_tell_that_domains_move_alike(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """These demonstrations move at random: the run is that of the weights alone, to the bit."""
    assert METHODS["beacon"].default_auxiliary() == (FutureState(),)
    config = tiny_config("beacon", source, target, auxiliary=METHODS["beacon"].default_auxiliary())
    said: list[str] = []
    train(config, tmp_path / "default", started=said.append)
    train(tiny_config("beacon", source, target), tmp_path / "without")
    assert "future-state loss: off" in said[0]
    for file in ("policy", "ema", "optimizer"):
        name = f"{LAST}/{file}.safetensors"
        assert_same_tensors(tmp_path / "default" / name, tmp_path / "without" / name)


def test_the_loss_of_a_step_is_the_sum(source: Path, target: Path, tmp_path: Path) -> None:
    plain, first, both = (
        Trainer(tiny_config("cotrain", source, target, auxiliary=losses), RunFolder(tmp_path / "run"))
        for losses in ((), BOTH[:1], BOTH)
    )
    batch = plain.windows.gather(np.arange(0, len(plain.windows), 3))
    values = [trainer._loss(batch, 0)[-1].item() for trainer in (plain, first, both)]
    _, encoding, _ = plain._loss(batch, 0)
    alone = [loss.build(plain.context).loss(batch, encoding).item() for loss in BOTH]
    assert min(alone) > 0
    assert values[1] == pytest.approx(values[0] + alone[0], rel=1e-5)
    assert values[2] == pytest.approx(values[0] + sum(alone), rel=1e-5)


def test_states_are_joined_by_the_name_of_the_part(source: Path, target: Path, tmp_path: Path) -> None:
    twice = (
        FutureState(**ALWAYS),
        FeatureDistance(),
        FutureState(**ALWAYS, decay=0.5),
    )
    train(tiny_config("beacon", source, target, auxiliary=twice), tmp_path / "run")
    names = load_file(tmp_path / "run" / LAST / "method.safetensors").keys()
    assert {name.split("/")[0] for name in names} == {"method", "0-future-state", "2-future-state"}
    for part in ("0-future-state", "2-future-state"):
        assert {f"{part}/gram", f"{part}/cross", f"{part}/steps"} <= names
    assert "method/reweighter/q" in names and "method/measurement/losses" in names


def test_joined_states_come_apart_again(source: Path, target: Path, tmp_path: Path) -> None:
    def parts() -> dict[str, Any]:
        config = tiny_config(
            "cotrain",
            source,
            target,
            auxiliary=(
                FutureState(**ALWAYS),
                FutureState(**ALWAYS, decay=0.5),
            ),
        )
        trainer = Trainer(config, RunFolder(tmp_path / "run"))
        batch = trainer.windows.gather(np.arange(20), images=False)
        for loss in trainer.auxiliary.values():
            loss.loss(batch, Encoding(torch.randn(20, 8), torch.zeros(20, 8)))
        return {"method": trainer.method, **trainer.auxiliary}

    mine, other = parts(), parts()
    state = join_states(mine)
    assert any(not np.array_equal(array, state[name]) for name, array in join_states(other).items())
    split_states(other, state)
    assert join_states(other).keys() == state.keys()
    for name, array in join_states(other).items():
        np.testing.assert_array_equal(array, state[name])


def test_a_checkpoint_of_a_loss_that_the_run_does_not_have(
    source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config("cotrain", source, target, auxiliary=(FutureState(**ALWAYS),))
    train(config, tmp_path / "run")
    for other in (
        (),
        (FeatureDistance(),),
        (FutureState(**ALWAYS, strength=0.02),),
        (FutureState(**ALWAYS), FutureState(**ALWAYS)),
    ):
        with pytest.raises(UserError, match="auxiliary") as refusal:
            train(tiny_config("cotrain", source, target, auxiliary=other), tmp_path / "run", resume=True)
        assert len(str(refusal.value).splitlines()) == 1
    # Whoever loads the state by other ways is told, too.
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "other"))
    state = {"0-future-state/steps": np.array(3)}
    with pytest.raises(UserError, match="it has '0-future-state'") as refusal:
        split_states({"method": trainer.method, **trainer.auxiliary}, state)
    assert len(str(refusal.value).splitlines()) == 1
    with pytest.raises(UserError, match="has an auxiliary loss that this run does not have"):
        FeatureDistance().build(trainer.context).load_state_dict({"steps": np.array(3)})


def test_config_yaml_has_them_and_gives_them_back(source: Path, target: Path, tmp_path: Path) -> None:
    losses = (
        FutureState(**ALWAYS, horizon_fractions=(0.5, 1.0), features="obs"),
        FeatureDistance(kernel="rbf"),
    )
    config = tiny_config("cotrain", source, target, auxiliary=losses)
    folder = RunFolder(tmp_path / "run")
    folder.start(config.to_dict(), [])
    assert read_config(folder.path) == config
    assert TrainConfig.from_dict(config.to_dict()).digest() == config.digest()
    assert config.to_dict()["auxiliary"] == [
        {
            "part": "future-state",
            "units": "larger",
            "largest_dynamics_gap": None,
            "strength": 0.01,
            "horizon_fractions": [0.5, 1.0],
            "decay": 0.99,
            "ridge": 0.001,
            "features": "obs",
        },
        {"part": "feature-distance", "strength": 0.01, "kernel": "rbf", "features": "vision"},
    ]
    assert config.digest() != tiny_config("cotrain", source, target).digest()
    for name in AUXILIARY_LOSSES:
        built = from_plain(AuxiliaryLoss, name)
        assert from_plain(AuxiliaryLoss, to_plain(built)) == built and built.part_name == name


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("foresight", r"auxiliary\[0\] foresight: there is no auxiliary loss 'foresight'"),
        (
            {"part": "future-state", "moments": 3},
            r"auxiliary\[0\].moments: there is no such option; there are",
        ),
        ({"part": "future-state", "decay": 1.0}, "decay must be at least 0 and below 1"),
        ({"part": "future-state", "horizon_fractions": []}, "horizon_fractions: shares above 0"),
        ({"part": "feature-distance", "kernel": "linear"}, r"auxiliary\[0\].kernel: one of 'energy'"),
        ({"strength": 1.0}, "auxiliary loss with its name under 'part' expected"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(
    entry: Any, message: str, source: Path, target: Path
) -> None:
    values = tiny_config("cotrain", source, target).to_dict()
    with pytest.raises(UserError, match=message) as refusal:
        TrainConfig.from_dict({**values, "auxiliary": [entry]})
    assert len(str(refusal.value).splitlines()) == 1


def test_without_what_it_needs_it_is_left_out(source: Path, target: Path, tmp_path: Path) -> None:
    blind = tiny_config("cotrain", source, target, auxiliary=BOTH, data={"proprio": ()})
    trainer = Trainer(blind, RunFolder(tmp_path / "run"))
    assert list(trainer.auxiliary) == ["1-feature-distance"]
    alone = tiny_config("source-only", source, None, auxiliary=BOTH)
    assert list(Trainer(alone, RunFolder(tmp_path / "run")).auxiliary) == ["0-future-state"]


@pytest.mark.parametrize(("kernel", "share"), [("energy", 2), ("energy-unbiased", 2), ("rbf", 2)])
def test_the_feature_distance_compares_both_sides_of_a_mini_batch(
    kernel: Any, share: int, source: Path, target: Path, tmp_path: Path
) -> None:
    from beacon.methods.auxiliary.feature_distance import feature_distance

    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    loss = FeatureDistance(strength=3.0, kernel=kernel, features="obs").build(trainer.context)
    for targets in (4, 1, 0):
        index = np.r_[trainer.context.source_windows[:6], trainer.context.target_windows[:targets]]
        batch = trainer.windows.gather(index, images=False)
        features = torch.randn(len(index), 5, requires_grad=True)
        found = loss.loss(batch, Encoding(torch.zeros(len(index), 2), features))
        if targets < share:  # too few to compare: nothing is added, and gradients still flow
            assert found.item() == 0
            found.backward()
            assert features.grad is not None and not features.grad.any()
        else:
            expected = 3.0 * feature_distance(features[:6], features[6:], kernel)
            assert found.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("kind", [FutureState, FeatureDistance])
@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_strengths_that_mean_nothing_are_refused(kind: type[AuxiliaryLoss], strength: float) -> None:
    with pytest.raises(UserError, match="must be at least 0, and finite"):
        kind(strength=strength)
