"""One linear readout of where the robot is going has to hold for the features of both domains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_runs, tiny_config, train_with_stops
from torch import Tensor

from beacon.data import WindowBatch, Windows
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError
from beacon.methods import BeaconOptions, PaperBeaconOptions
from beacon.methods.foresight import MEMORY, MOMENTS, Foresight, ways_ahead
from beacon.policy import Encoding
from beacon.runs import RunFolder
from beacon.training import Trainer, train


@pytest.fixture(scope="module")
def windows(source: Path, target: Path) -> Windows:
    return Windows([EpisodeSet.load(path) for path in (source, target)], obs_steps=1, horizon=8)


def batches(windows: Windows, count: int, seed: int = 0) -> list[WindowBatch]:
    rng = np.random.default_rng(seed)
    return [windows.gather(rng.integers(len(windows), size=24), images=False) for _ in range(count)]


def features_of(foresight: Foresight, batch: WindowBatch, shift: float = 0.0) -> Tensor:
    """The way ahead itself, turned and stretched; on the target moved by ``shift``."""
    way = foresight._way[batch.index]
    turn = torch.randn(way.shape[1], 40, generator=torch.Generator().manual_seed(1))
    return way @ turn + shift * batch.domain[:, None]


def test_the_way_ahead_ends_where_the_episode_ends(windows: Windows) -> None:
    ways = ways_ahead(windows).reshape(len(windows), len(MOMENTS), -1)
    for episode in (0, 3, len(windows.episode_length) - 1):
        mine = np.flatnonzero(windows.episode == episode)
        proprio = windows.gather(mine, images=False).proprio
        state = torch.cat([proprio[key][:, -1] for key in sorted(proprio)], dim=1).numpy()
        assert ways[mine, -1] == pytest.approx(np.tile(state[-1], (len(mine), 1)))
        steps = np.arange(len(mine))
        for step in (0, 2, len(mine) - 1):
            places = step + MOMENTS * (len(mine) - 1 - step)
            expected = np.stack([np.interp(places, steps, column) for column in state.T], axis=1)
            assert ways[mine[step]] == pytest.approx(expected, abs=1e-5)


def test_features_that_tell_the_way_cost_nothing(windows: Windows) -> None:
    foresight = Foresight(windows, target=1)
    for batch in batches(windows, 300):
        loss = foresight.loss(batch, features_of(foresight, batch))
    assert loss < 1e-3
    blind = Foresight(windows, target=1)
    for batch in batches(windows, 300):
        loss = blind.loss(batch, torch.zeros(len(batch), 40))
    assert loss > 0.5  # of a variance of about one


def test_it_moves_features_of_the_target_to_where_the_source_has_them(windows: Windows) -> None:
    foresight = Foresight(windows, target=1)
    for batch in batches(windows, 300):
        apart = foresight.loss(batch, features_of(foresight, batch, shift=3.0))
    together = foresight.loss(batch, features_of(foresight, batch))
    assert apart > 10 * together
    features = features_of(foresight, batch, shift=3.0).requires_grad_()
    foresight.loss(batch, features).backward()
    on_target = batch.domain == 1
    lengths = features.grad.norm(dim=1)
    assert lengths[on_target].min() > 10 * lengths[~on_target].max()


def test_the_readout_counts_once_it_has_seen_enough(windows: Windows) -> None:
    foresight = Foresight(windows, target=1)
    batch = batches(windows, 1)[0]
    flat = torch.zeros(len(batch), 3)
    # The ones alone are seen: the readout is nearly the mean of the source windows.
    way = foresight._way[batch.index]
    expected = (way - way[batch.domain == 0].mean(dim=0)).square().mean()
    assert foresight.loss(batch, flat) == pytest.approx(float((1 - MEMORY) * expected), rel=1e-2)


def test_it_is_part_of_beacons_loss_and_not_of_the_papers(source: Path, target: Path, tmp_path: Path) -> None:
    losses = {}
    for name, options in (
        ("beacon", BeaconOptions(foresight=0.5)),
        ("off", BeaconOptions(foresight=0.0)),
        ("beacon-paper", PaperBeaconOptions()),
    ):
        config = tiny_config(name.replace("off", "beacon"), source, target, options=options, steps=6)
        trainer = Trainer(config, RunFolder(tmp_path / name))
        batch = trainer.windows.gather(np.arange(0, len(trainer.windows), 5))
        features = torch.randn(
            len(batch), trainer.policy.vision_dim, generator=torch.Generator().manual_seed(0)
        )
        encoding = Encoding(features, torch.zeros(len(batch), 99))
        losses[name] = trainer.method.extra_loss(batch, encoding, torch.zeros(len(batch)))
    assert losses["off"] is None and losses["beacon-paper"] is None
    expected = 0.5 * Foresight(trainer.windows, target=1).loss(batch, features)
    assert losses["beacon"] == expected and expected > 0


def test_it_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("beacon", source, target, options=BeaconOptions(foresight=0.1), steps=8)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 7)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_a_state_of_something_else_is_refused(windows: Windows) -> None:
    foresight = Foresight(windows, target=1)
    assert foresight.state_dict() == {}
    batch = batches(windows, 1)[0]
    foresight.loss(batch, torch.randn(len(batch), 4))
    state = foresight.state_dict()
    with pytest.raises(UserError, match="no 'cross' of foresight"):
        foresight.load_state_dict({"gram": state["gram"]})
    with pytest.raises(UserError, match="other proprioception"):
        foresight.load_state_dict({**state, "cross": state["cross"][:, 1:]})


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_strengths_that_mean_nothing_are_refused(strength: float) -> None:
    with pytest.raises(UserError, match="must be at least 0, and finite"):
        BeaconOptions(foresight=strength)
