"""Tiny real HDF5 files, written with h5py alone so that the reader is not tested against our own writer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np

ENV_ARGS = {"env_name": "Stack_D0", "env_version": "1.5.2", "type": 1, "env_kwargs": {"control_freq": 20}}

MakeFile = Callable[..., Path]
Edit = Callable[[Path], "h5py.File"]


def write_raw(
    path: Path,
    *,
    lengths: Sequence[int] = (5, 3, 4),
    size: tuple[int, int] = (6, 8),
    action_dim: int = 7,
    cameras: Sequence[str] = ("agentview_image",),
    proprio: dict[str, int] | None = None,
    mimicgen: bool = False,
    masks: dict[str, list[str]] | None = None,
    seed: int = 0,
    scale: float = 1.0,
    names: Sequence[str] | None = None,
) -> Path:
    """A robomimic file, or one as MimicGen leaves it."""
    rng = np.random.default_rng(seed)
    if proprio is None:
        proprio = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(ENV_ARGS)
        data.attrs["total"] = sum(lengths)
        for i, length in enumerate(lengths):
            demo = data.create_group(names[i] if names else f"demo_{i}")
            demo.attrs["num_samples"] = length
            demo.attrs["model_file"] = "<mujoco/>" * 10
            demo.attrs["seed"] = 100 + i
            demo["actions"] = rng.uniform(-scale, scale, (length, action_dim))
            demo["states"] = rng.normal(size=(length, 11))
            for key, width in proprio.items():
                demo[f"obs/{key}"] = rng.normal(size=(length, width))
            demo["obs/object"] = rng.normal(size=(length, 10))
            for camera in cameras:
                demo[f"obs/{camera}"] = rng.integers(0, 256, (length, *size, 3), dtype=np.uint8)
            if mimicgen:
                demo["datagen_info/eef_pose"] = rng.normal(size=(length, 4, 4))
                demo["src_demo_inds"] = np.array([0, 1])
                demo["src_demo_labels"] = np.zeros((length, 1), np.int64)
            else:
                demo["rewards"] = np.zeros(length)
                demo["dones"] = np.eye(1, length, length - 1, dtype=np.int64)[0]
                demo["next_obs/object"] = rng.normal(size=(length, 10))
        for key, chosen in (masks or {}).items():
            file[f"mask/{key}"] = np.array([name.encode() for name in chosen], dtype="S")
    return path
