"""End to end: a small dataset is learned by heart and comes back from the policy in the run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from demonstrations import make_dataset
from tiny_runs import TINY, tiny_config

from beacon import load_policy
from beacon.data import EpisodeSet
from beacon.policy import EncoderConfig
from beacon.training import train


@pytest.mark.parametrize(
    ("denoiser", "steps"),
    [({"denoiser": "mlp", "mlp_width": 128, "mlp_blocks": 2}, 800), ({"channels": (48,)}, 600)],
    ids=["mlp", "unet"],
)
def test_a_small_dataset_is_reproduced(denoiser: dict[str, Any], steps: int, tmp_path: Path) -> None:
    target = make_dataset(tmp_path / "target.hdf5", 2, steps=5, seed=28)
    encoder = EncoderConfig(
        widths=(8, 8, 8, 8),
        output_stride=8,
        keypoints=8,
        learn_temperature=True,
        feature_dim=None,
        crop=1.0,
    )
    policy = replace(TINY, obs_steps=1, encoder=encoder, step_dim=32, sampling_steps=20, draws=6, **denoiser)
    config = tiny_config(
        "target-only",
        None,
        target,
        policy=policy,
        run={"checkpoint_every": 9, "log_every": 50},
        steps=steps,
        steps_per_epoch=200,
        batch_size=10,
        learning_rate=3e-3,
        warmup_steps=20,
        ema_max=0.97,
    )
    train(config, tmp_path / "run")

    trained = load_policy(tmp_path / "run")
    episodes = EpisodeSet.load(target)
    demos = [episodes.episode(number) for number in range(len(episodes))]
    rows = np.minimum(np.arange(5)[:, None] + np.arange(4), 4)  # the chunk at step t, edge padded
    expected = np.concatenate([demo.actions[rows] for demo in demos])
    assert expected.std() > 0.4
    # Two draws of noise are two samples of one plan, and the plan is that of the image.
    for seed in (0, 100):
        trained.reset(seed)
        chunks = [
            trained.act({key: np.asarray(values)[:, None] for key, values in demo.obs.items()})
            for demo in demos
        ]
        error = np.concatenate(chunks) - expected
        assert np.sqrt(np.mean(error**2)) < 0.04
        assert np.abs(error).max() < 0.2
