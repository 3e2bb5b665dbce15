"""End to end: a small dataset is trained on and comes back from the policy in the run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from demonstrations import make_dataset
from tiny_runs import TINY, tiny_config

from beacon import load_policy
from beacon.data import EpisodeSet
from beacon.policy import EncoderConfig
from beacon.training import train


def test_a_small_dataset_is_reproduced(tmp_path: Path) -> None:
    target = make_dataset(tmp_path / "target.hdf5", 2, steps=5, seed=28)
    policy = replace(
        TINY,
        obs_steps=1,
        encoder=EncoderConfig(
            widths=(8, 8, 8, 8),
            output_stride=8,
            keypoints=8,
            learn_temperature=True,
            feature_dim=None,
            crop=1.0,
        ),
        denoiser="mlp",
        mlp_width=128,
        mlp_blocks=2,
        step_dim=32,
        sampling_steps=20,
        draws=6,
    )
    config = tiny_config(
        "target-only",
        None,
        target,
        policy=policy,
        run={"checkpoint_every": 9, "log_every": 50},
        steps=800,
        steps_per_epoch=200,
        batch_size=10,
        learning_rate=3e-3,
        warmup_steps=20,
        ema_max=0.97,
    )
    train(config, tmp_path / "run")

    trained = load_policy(tmp_path / "run")
    episodes = EpisodeSet.load(target)
    chunks, expected = [], []
    for e in range(len(episodes)):
        demo = episodes.episode(e)
        acted = trained.act({key: np.asarray(values)[:, None] for key, values in demo.obs.items()})
        rows = np.minimum(np.arange(5)[:, None] + np.arange(4), 4)  # the chunk at step t, edge padded
        chunks.append(acted)
        expected.append(demo.actions[rows])
    error = np.concatenate(chunks) - np.concatenate(expected)
    assert np.concatenate(expected).std() > 0.4
    assert np.sqrt(np.mean(error**2)) < 0.04
    assert np.abs(error).max() < 0.2
