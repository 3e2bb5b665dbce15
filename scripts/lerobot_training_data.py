"""A small dataset, a policy and weights for check_lerobot_training.sh."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np

from beacon.data import Episode, write_robomimic
from beacon.data.converting import ConvertOptions, convert
from beacon.data.sample_weights import write_lerobot_weights, write_rabc_progress
from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec, save_policy
from beacon.policy.deployment import DeploymentInfo

EPISODES, STEPS = 3, 20


def main(folder: Path) -> None:
    """Write them; the second episode has weight 0."""
    spec = ObservationSpec({"observation.images.front": (96, 96, 3)}, {"observation.state": 2}, action_dim=2)
    config = dataclasses.replace(PRESETS["cpu"], obs_steps=2, sampling_steps=4)
    board = {"offset": [256.0] * 2, "scale": [256.0] * 2}
    save_policy(
        folder / "policy",
        state=DiffusionPolicy(spec, config, seed=1).state_dict(),  # nobody has taught it anything
        ema_state=None,
        spec=spec,
        config=config,
        normalization={"actions": board, "proprio": {"observation.state": board}},
        deployment=DeploymentInfo(control_rate=10.0, action_names=("x.pos", "y.pos")),
    )
    rng = np.random.default_rng(0)
    episodes = [
        Episode(
            f"demo_{e}",
            rng.uniform(0, 512, (STEPS, 2)).astype(np.float32),
            {
                "front": rng.integers(0, 256, (STEPS, 96, 96, 3), dtype=np.uint8),
                "robot0_eef_pos": rng.uniform(0, 512, (STEPS, 2)).astype(np.float32),
            },
        )
        for e in range(EPISODES)
    ]
    env_args = {"env_name": "PushT", "type": 2, "env_kwargs": {"control_freq": 10}}
    write_robomimic(folder / "demos.hdf5", episodes, env_args=env_args)
    convert(folder / "demos.hdf5", folder / "data", ConvertOptions(video=False))
    index, weights = np.arange(EPISODES * STEPS), rng.uniform(0, 1, EPISODES * STEPS)
    weights[STEPS : 2 * STEPS] = 0
    write_lerobot_weights(folder / "sample_weights.parquet", index, weights)
    write_rabc_progress(folder / "sarm_progress.parquet", index, weights, chunk_size=config.horizon)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
