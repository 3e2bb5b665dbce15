"""Small policies, one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from beacon.policy import EncoderConfig, ObservationSpec, PolicyConfig


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from more threads, and results then do not depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def spec() -> ObservationSpec:
    """Two cameras of different sizes, two proprioception keys."""
    return ObservationSpec(
        cameras={"front": (24, 24, 3), "observation.images.wrist": (20, 28, 3)},
        proprio={"pose": 3, "gripper": 1},
        action_dim=4,
    )


@pytest.fixture
def config() -> PolicyConfig:
    """A policy of a few thousand parameters."""
    return PolicyConfig(
        obs_steps=2,
        horizon=8,
        action_steps=4,
        encoder=EncoderConfig(widths=(8, 8, 8, 8), output_stride=8, keypoints=4, feature_dim=6),
        channels=(16, 24),
        step_dim=16,
        train_timesteps=20,
        sampling_steps=20,
        draws=3,
    )
