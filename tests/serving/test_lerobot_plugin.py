"""The parts of the LeRobot plug-in that need no LeRobot; scripts/check_lerobot_policy.py tries the others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from lerobot_policy_beacon.bridge import ChunkPlayer, build, description_text, to_input, to_observation
from serving_inputs import observation

from beacon import load_policy
from beacon.errors import UserError
from beacon.policy import TrainedPolicy

PLUGIN = Path(__file__).parent.parent.parent / "lerobot_policy_beacon"


@pytest.fixture
def policy(policy_folder: Path) -> TrainedPolicy:
    return load_policy(policy_folder)


def frames(*seeds: int) -> dict[str, torch.Tensor]:
    """A batch as LeRobot's preprocessor gives it: one row a seed."""
    rows = [observation(seed) for seed in seeds]
    images = [torch.from_numpy(row["front"]).permute(2, 0, 1).float() / 255 for row in rows]
    poses = [torch.from_numpy(row["pose"]).float() for row in rows]
    return {"front": torch.stack(images), "pose": torch.stack(poses)}


def test_pixels_come_back_to_the_bit(policy: TrainedPolicy) -> None:
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, axis=3)
    batch = {"front": torch.from_numpy(every).permute(0, 3, 1, 2).float() / 255, "pose": torch.zeros(1, 3)}
    np.testing.assert_array_equal(to_observation(batch, policy)["front"], every)
    batch["front"] = torch.from_numpy(every).permute(0, 3, 1, 2)
    np.testing.assert_array_equal(to_observation(batch, policy)["front"], every)


def test_one_action_at_a_time_is_the_policys_chunk(policy: TrainedPolicy, policy_folder: Path) -> None:
    player, ours = ChunkPlayer(policy), load_policy(policy_folder)
    for step in range(10):
        action = player.next_action(frames(step, 100 + step))
        if step % 4 == 0:
            steps = [step - 1, step] if step else [0]
            rows = [[observation(base + s) for s in steps] for base in (0, 100)]
            seen = {k: np.stack([np.stack([o[k] for o in row]) for row in rows]) for k in ("front", "pose")}
            chunk = ours.act(seen)
        np.testing.assert_allclose(action.numpy(), chunk[:, step % 4], rtol=1e-4, atol=1e-5)
    player.reset()
    assert player.next_action(frames(0)).shape == (1, 2)


def test_chunks_of_steps_and_of_histories(policy: TrainedPolicy) -> None:
    player = ChunkPlayer(policy)
    assert player.chunk(frames(0, 1, 2)).shape == (3, 8, 2)
    histories = {key: torch.stack([value, value], dim=1) for key, value in frames(0, 1, 2).items()}
    policy.reset(0)
    both = player.chunk(histories)
    policy.reset(0)
    np.testing.assert_array_equal(both, player.chunk(frames(0, 1, 2)))  # a step is padded by itself
    assert to_input(histories, policy).size == 3


def test_a_policy_is_built_from_its_description(policy: TrainedPolicy, policy_folder: Path) -> None:
    built = build(description_text(policy_folder))
    assert built.spec == policy.spec and built.policy.config == policy.policy.config
    assert built.deployment == policy.deployment
    built.policy.load_state_dict(policy.policy.state_dict())
    np.testing.assert_array_equal(built.act(observation()), policy.act(observation()))
    with pytest.raises(UserError, match=r"--policy\.path"):
        build("")


def test_names_by_which_lerobot_finds_it() -> None:
    project = (PLUGIN / "pyproject.toml").read_text()
    assert re.search(r'^name = "lerobot_policy_beacon"', project, re.MULTILINE)
    package = PLUGIN / "src" / "lerobot_policy_beacon"
    for file, words in {
        "configuration_beacon.py": ('register_subclass("beacon")', "class BeaconConfig(PreTrainedConfig)"),
        "modeling_beacon.py": ("class BeaconPolicy(PreTrainedPolicy)",),
        "processor_beacon.py": ("def make_beacon_pre_post_processors(",),
    }.items():
        assert all(word in (package / file).read_text() for word in words)
