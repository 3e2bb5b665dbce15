"""Where losses and embeddings of a refresh come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beacon_runs import make_trainer
from tiny_runs import assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import PAPER, Measurements
from beacon.methods.base import choose_features
from beacon.plain import changed
from beacon.policy import Encoding
from beacon.training import train

REUSE = {"part": "reuse-gradient-steps"}


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
    many = make_trainer(source, target, tmp_path, measurement={"draws": 16}).method.between_epochs(0)
    assert np.array_equal(many.losses, trainer.context.measure(everything, 16, 0).losses.double().numpy())


def test_reuse_remembers_what_the_steps_saw(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, measurement={**REUSE, "max_age": 2})
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
    assert (method.state_dict()["measurement/embeddings"][seen[6:]] == 0.5).all()

    # Nothing more is observed: windows grow too old, the ones that the refresh swept an epoch later.
    assert [method.between_epochs(e).scalars["swept_windows"] for e in (2, 3, 4)] == [0, size - 4, 4]


def test_reuse_takes_the_losses_of_real_steps(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = make_trainer(source, target, tmp_path, measurement={**REUSE, "max_age": 99}, features="obs")
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
    state = method.state_dict()
    for window, loss in kept.items():
        assert state["measurement/losses"][window] == np.float32(loss)
    assert state["measurement/embeddings"].shape == (len(trainer.windows), trainer.policy.condition_dim)


def test_reuse_resumes_exactly(source: Path, target: Path, tmp_path: Path) -> None:
    options = changed(PAPER, {"measurement": {**REUSE, "max_age": 1}, "refresh_every": 2})
    config = tiny_config("beacon-paper", source, target, options=options, steps=14)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 5, 10, 12)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    swept = [line["swept_windows"] for line in metrics(tmp_path / "whole", "refresh")]
    assert swept[0] > 0 and len(swept) == 3


def test_reused_measurements_need_a_first_epoch(source: Path, target: Path, tmp_path: Path) -> None:
    """Before any gradient step there is nothing to reuse; a sweep can do without."""
    assert make_trainer(source, target, tmp_path, measurement=REUSE).method.between_epochs(0) is None
    assert make_trainer(source, target, tmp_path).method.between_epochs(0) is not None


def test_features_choose_the_embedding(source: Path, target: Path, tmp_path: Path) -> None:
    measured = Measurements(torch.zeros(2), torch.ones(2, 3), torch.zeros(2, 5))
    for features, width in (("vision", 3), ("obs", 5)):
        assert choose_features(measured, features).shape == (2, width)
    for measurement in ({}, REUSE):
        widths = {}
        for features in ("vision", "obs"):
            trainer = make_trainer(source, target, tmp_path, features=features, measurement=measurement)
            widths[features] = trainer.method._measurement.at(0).embeddings.shape
        size, policy = len(trainer.windows), trainer.policy
        assert widths == {"vision": (size, policy.vision_dim), "obs": (size, policy.condition_dim)}


def test_a_state_of_something_else_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    measurement = make_trainer(source, target, tmp_path, measurement=REUSE).method._measurement
    assert measurement.state_dict() == {}
    measurement.at(1)
    state = measurement.state_dict()
    with pytest.raises(UserError, match="belongs to another method: no measured 'epoch'"):
        measurement.load_state_dict({name: state[name] for name in ("losses", "embeddings")})
    with pytest.raises(UserError, match="belongs to other data: of 58 windows, not 59"):
        measurement.load_state_dict({**state, "losses": state["losses"][1:]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "sweep-all", "draws": 0}, "--measurement.draws 0: must be at least 1"),
        ({**REUSE, "max_age": 0}, "--measurement.max-age 0: must be at least 1"),
        ({**REUSE, "draws": 0}, "--measurement.draws 0: must be at least 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        changed(PAPER, {"measurement": options})
