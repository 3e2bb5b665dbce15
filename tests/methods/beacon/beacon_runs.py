"""Trainers of the paper's BEACON with single options changed, and demonstrations that contradict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tiny_runs import TINY, tiny_config

from beacon.methods import PAPER
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer

FAST = replace(TINY, obs_steps=1, denoiser="mlp", mlp_width=64, mlp_blocks=2)


def make_trainer(source: Path, target: Path, tmp_path: Path, *, epochs: int = 6, **options: Any) -> Trainer:
    """A trainer whose options differ from the paper's in these, nested as in a configuration."""
    chosen = changed(PAPER, options)
    config = tiny_config("beacon-paper", source, target, options=chosen, steps=2 * epochs)
    return Trainer(config, RunFolder(tmp_path / "run"))


def go_home(path: Path, way: float) -> None:
    """Let all actions point to the middle, which proprioception is enough to see, or away from it."""
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            hand = demo["obs/robot0_eef_pos"][:, :2]
            demo["actions"][:, :2] = way * np.clip(2 * hand, -1, 1)
