"""What all runs in these tests share."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny_runs import one_thread, other_source, private_cache, source, target

__all__ = ["one_thread", "other_source", "private_cache", "source", "target"]


@pytest.fixture(scope="module")
def noisy_target(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target's demonstrations, read by worse sensors."""
    path = tmp_path_factory.mktemp("data") / "noisy.hdf5"
    shutil.copy(target, path)
    rng = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            values = demo["obs"]["robot0_eef_pos"]
            values[...] = values[...] + rng.normal(size=values.shape).astype(np.float32) * 0.5
            pixels = demo["obs"]["agentview_image"]
            grain = 6 * rng.normal(size=pixels.shape)
            pixels[...] = (pixels[...] + grain).clip(0, 255).astype(np.uint8)
    return path
