"""Specifications and observations that the server's tests share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tiny_runs import TINY as TINY_DDPM

from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec, save_policy
from beacon.policy.deployment import DeploymentInfo

SPEC = ObservationSpec(cameras={"front": (24, 24, 3)}, proprio={"pose": 3}, action_dim=2)
TINY = replace(TINY_DDPM, sampler="ddim", sampling_steps=4)
NORMALIZATION = {
    "actions": {"offset": [0.0, 1.0], "scale": [1.0, 0.5]},
    "proprio": {"pose": {"offset": [0.1, 0.2, 0.3], "scale": [2.0, 1.0, 0.5]}},
}


def observation(seed: int = 0, *lead: int) -> dict[str, Any]:
    """A random observation of `SPEC`."""
    rng = np.random.default_rng(seed)
    return {
        "front": rng.integers(0, 256, (*lead, 24, 24, 3), dtype=np.uint8),
        "pose": rng.uniform(-1, 1, (*lead, 3)),
    }


def save_sim_policy(folder: Path) -> Path:
    """Write an untrained policy with the demo's observations and actions."""
    proprio = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}
    spec = ObservationSpec(cameras={"agentview_image": (96, 96, 3)}, proprio=proprio, action_dim=4)
    config = replace(PRESETS["cpu"], sampling_steps=2)
    affine = {key: {"offset": [0.0] * n, "scale": [1.0] * n} for key, n in proprio.items()}
    save_policy(
        folder,
        state=DiffusionPolicy(spec, config).state_dict(),
        ema_state=None,
        spec=spec,
        config=config,
        normalization={"actions": {"offset": [0.0] * 4, "scale": [1.0] * 4}, "proprio": affine},
        deployment=DeploymentInfo(control_rate=20.0),
    )
    return folder
