"""One linear readout of where the robot is going has to hold for the features of both domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_runs import assert_same_runs, tiny_config, train_with_stops
from torch import Tensor

from beacon.data import WindowBatch, Windows
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError
from beacon.methods.auxiliary.future_state import (
    FutureState,
    FutureStateLoss,
    Units,
    future_states,
    in_units,
)
from beacon.policy import Encoding
from beacon.runs import RunFolder
from beacon.training import Trainer, train


@pytest.fixture(scope="module")
def windows(source: Path, target: Path) -> Windows:
    return Windows([EpisodeSet.load(path) for path in (source, target)], obs_steps=1, horizon=8)


def readout(windows: Windows) -> FutureStateLoss:
    return FutureStateLoss(FutureState(), windows, target=1)


def batches(windows: Windows, count: int, seed: int = 0) -> list[WindowBatch]:
    rng = np.random.default_rng(seed)
    return [windows.gather(rng.integers(len(windows), size=24), images=False) for _ in range(count)]


def features_of(readout: FutureStateLoss, batch: WindowBatch, shift: float = 0.0) -> Tensor:
    """The future states themselves, turned and stretched; on the target moved by ``shift``."""
    future = readout._future[batch.index]
    turn = torch.randn(future.shape[1], 40, generator=torch.Generator().manual_seed(1))
    return future @ turn + shift * batch.domain[:, None]


def test_future_states_end_where_the_episode_ends(windows: Windows) -> None:
    moments = np.array(FutureState().horizon_fractions)
    states = future_states(windows, tuple(moments)).reshape(len(windows), len(moments), -1)
    for episode in (0, 3, len(windows.episode_length) - 1):
        mine = np.flatnonzero(windows.episode == episode)
        proprio = windows.gather(mine, images=False).proprio
        state = torch.cat([proprio[key][:, -1] for key in sorted(proprio)], dim=1).numpy()
        assert states[mine, -1] == pytest.approx(np.tile(state[-1], (len(mine), 1)))
        steps = np.arange(len(mine))
        for step in (0, 2, len(mine) - 1):
            places = step + moments * (len(mine) - 1 - step)
            expected = np.stack([np.interp(places, steps, column) for column in state.T], axis=1)
            assert states[mine[step]] == pytest.approx(expected, abs=1e-5)


def test_features_that_tell_the_future_cost_nothing(windows: Windows) -> None:
    fitted = readout(windows)
    for batch in batches(windows, 300):
        loss = fitted.error(batch, features_of(fitted, batch))
    assert loss < 1e-3
    blind = readout(windows)
    for batch in batches(windows, 300):
        loss = blind.error(batch, torch.zeros(len(batch), 40))
    assert loss > 0.5  # of a variance of about one


def test_it_moves_features_of_the_target_to_where_the_source_has_them(windows: Windows) -> None:
    fitted = readout(windows)
    for batch in batches(windows, 300):
        apart = fitted.error(batch, features_of(fitted, batch, shift=3.0))
    together = fitted.error(batch, features_of(fitted, batch))
    assert apart > 10 * together
    features = features_of(fitted, batch, shift=3.0).requires_grad_()
    fitted.error(batch, features).backward()
    on_target = batch.domain == 1
    lengths = features.grad.norm(dim=1)
    assert lengths[on_target].min() > 10 * lengths[~on_target].max()


def test_the_readout_counts_once_it_has_seen_enough(windows: Windows) -> None:
    fitted = readout(windows)
    batch = batches(windows, 1)[0]
    flat = torch.zeros(len(batch), 3)
    # The ones alone are seen: the readout is nearly the mean of the source windows.
    future = fitted._future[batch.index]
    expected = (future - future[batch.domain == 0].mean(dim=0)).square().mean()
    assert fitted.error(batch, flat) == pytest.approx(float((1 - FutureState().decay) * expected), rel=1e-2)


def test_noise_of_the_targets_sensors_does_not_count_more_than_places() -> None:
    rng = np.random.default_rng(0)
    on_target = np.arange(400) >= 300
    place = rng.normal(size=400)
    turn = rng.normal(size=400) * np.where(on_target, 0.05, 0.005) + 0.02 * on_target  # it hardly turns
    still = np.full(400, 0.3)
    future = np.stack([place, turn, still], axis=1).astype(np.float32)

    def squares(units: Units) -> NDArray[np.float64]:
        scaled = in_units(future, on_target, units)
        assert np.square(scaled[~on_target, 0]).mean() == pytest.approx(1, rel=0.2)
        return np.asarray(np.square(scaled[on_target]).mean(axis=0), np.float64)

    assert squares("source")[1] > 50
    assert squares("larger") == pytest.approx([min(1.0, squares("source")[0]), 1.0, 0.0], abs=0.01)
    # Where the target senses as the source does, the two are the same but for chance.
    alike = np.where(on_target, rng.normal(size=400), place)[:, None].astype(np.float32)
    assert in_units(alike, on_target, "larger") == pytest.approx(
        in_units(alike, on_target, "source"), rel=0.2
    )


@pytest.mark.parametrize("method", ["beacon", "cotrain"])
def test_it_is_part_of_the_loss_where_it_was_asked_for(
    method: str, source: Path, target: Path, tmp_path: Path
) -> None:
    losses: dict[str, Any] = {}
    for name, auxiliary in (
        ("on", (FutureState(strength=0.5, largest_dynamics_gap=None),)),
        ("off", (FutureState(strength=0.0),)),
        ("none", ()),
    ):
        config = tiny_config(method, source, target, auxiliary=auxiliary)
        trainer = Trainer(config, RunFolder(tmp_path / name))
        batch = trainer.windows.gather(np.arange(0, len(trainer.windows), 5))
        features = torch.randn(
            len(batch), trainer.policy.vision_dim, generator=torch.Generator().manual_seed(0)
        )
        encoding = Encoding(features, torch.zeros(len(batch), 99))
        assert trainer.method.extra_loss(batch, encoding, torch.zeros(len(batch))) is None
        losses[name] = [loss.loss(batch, encoding) for loss in trainer.auxiliary.values()]
    assert losses["off"] == losses["none"] == []
    expected = 0.5 * FutureStateLoss(FutureState(), trainer.windows, target=1).error(batch, features)
    assert losses["on"] == [expected] and expected > 0


def test_it_reads_the_features_that_were_asked_for(windows: Windows) -> None:
    batch = batches(windows, 1)[0]
    vision, observation = torch.randn(2, len(batch), 6).unbind()
    for features, chosen in (("vision", vision), ("obs", observation)):
        options = FutureState(strength=2.0, features=features)
        loss = FutureStateLoss(options, windows, target=1).loss(batch, Encoding(vision, observation))
        expected = FutureStateLoss(options, windows, target=1).error(batch, chosen)
        assert loss.item() == pytest.approx(2.0 * expected.item(), rel=1e-6)


def test_it_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(
        "beacon", source, target, auxiliary=(FutureState(strength=0.1, largest_dynamics_gap=None),), steps=8
    )
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 7)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_a_state_of_something_else_is_refused(windows: Windows) -> None:
    fitted = readout(windows)
    assert fitted.state_dict() == {}
    batch = batches(windows, 1)[0]
    fitted.error(batch, torch.randn(len(batch), 4))
    state = fitted.state_dict()
    with pytest.raises(UserError, match="future-state has no 'cross'"):
        fitted.load_state_dict({"gram": state["gram"]})
    with pytest.raises(UserError, match="its future states are of another robot"):
        fitted.load_state_dict({**state, "cross": state["cross"][:, 1:]})
