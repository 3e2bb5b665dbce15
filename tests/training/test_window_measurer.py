"""A sweep over frames says the same as encoding whole windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import TINY, tiny_config

from beacon.methods import CoTrainingOptions
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.training import Trainer
from beacon.training.window_measurer import WindowMeasurer

ADAPTED = replace(TINY, encoder=replace(TINY.encoder, adapt_view=True))


def move_view(trainer: Trainer) -> None:
    """As if the target's camera had turned out to be another."""
    with torch.no_grad():
        trainer.policy.encoder.views[0].departure += torch.linspace(-0.1, 0.1, 8)


@pytest.mark.parametrize("obs_steps", [1, 2, 3])
@pytest.mark.parametrize("statistics", ["pooled", "per-domain"])
def test_sweep_equals_encoding_windows(
    obs_steps: int, statistics: str, source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config(
        "cotrain",
        source,
        target,
        policy=replace(ADAPTED, obs_steps=obs_steps),
        data={"statistics": statistics},
    )
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    move_view(trainer)
    # All, some in any order, one twice, the first steps of episodes where the history is padded.
    everything = trainer.measurer.everything
    for index in (everything, np.array([8, 9, 10, 44, 45, 58, 0, 27, 9]), np.array([46])):
        found = trainer.measurer(index, 3, (7, 1, 2))
        batch = trainer.windows.gather(index)
        scaling, domain = trainer.normalizer, batch.domain
        with torch.no_grad():
            proprio = {k: scaling.normalize_proprio(k, v, domain) for k, v in batch.proprio.items()}
            of_source = domain != trainer.context.target
            encoding = trainer.policy.encode(batch.images, proprio, of_source=of_source)
            noise, steps = trainer.policy.draw_noise(len(index), 3, generator(7, 1, 2))
            actions = scaling.normalize_actions(batch.actions, domain)
            losses = trainer.policy.per_sample_loss(encoding.observation, actions, noise, steps).mean(dim=0)
        assert torch.allclose(found.vision, encoding.vision, atol=1e-5)
        assert torch.allclose(found.observation, encoding.observation, atol=1e-5)
        assert torch.allclose(found.losses, losses, rtol=1e-4, atol=1e-5)
        assert not found.losses.requires_grad and not found.vision.requires_grad
    assert trainer.policy.training  # as it was


def test_shared_noise_and_parts(source: Path, target: Path, tmp_path: Path) -> None:
    """With shared noise a window's loss does not depend on what is measured beside it."""
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    sweep = trainer.measurer
    repeated = np.tile(sweep.everything, 6)  # more than one part
    assert len(repeated) > 256
    shared = sweep(repeated, 2, (1, 2), shared=True).losses.reshape(6, -1)
    alone = sweep(np.array([5]), 2, (1, 2), shared=True).losses
    assert torch.allclose(shared, shared[:1].expand(6, -1), rtol=1e-5)
    assert torch.allclose(shared[:, 5], alone.expand(6), rtol=1e-5)
    own = sweep(repeated, 2, (1, 2)).losses.reshape(6, -1)
    assert not torch.allclose(own[0], own[1], rtol=1e-3)  # no noise comes twice in different parts
    counted: list[int] = []
    sweep(repeated, 1, (1,), advance=counted.append)
    assert sum(counted) == len(sweep.everything)  # frames are encoded once


def test_validation_windows_use_the_targets_scaling_and_view(
    source: Path, target: Path, tmp_path: Path
) -> None:
    data = {"statistics": "per-domain", "validation": target}
    config = tiny_config("cotrain", source, target, policy=ADAPTED, data=data)
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    move_view(trainer)
    assert isinstance(trainer.validation, WindowMeasurer)
    held_out = trainer.validation(trainer.validation.everything, 2, (3, 3), shared=True)
    same = trainer.measurer(trainer.context.target_windows, 2, (3, 3), shared=True)
    assert torch.allclose(held_out.losses, same.losses, rtol=1e-5)


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_the_view_is_learned_from_target_windows_alone(
    ratio: float, source: Path, target: Path, tmp_path: Path
) -> None:
    options = CoTrainingOptions(ratio=ratio)
    trainer = Trainer(
        tiny_config("cotrain", source, target, options=options, policy=ADAPTED), RunFolder(tmp_path)
    )
    trainer.run()
    moved = bool(trainer.policy.encoder.views[0].departure.any())
    assert moved == (ratio < 1)
