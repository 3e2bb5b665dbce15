"""Small real demonstrations: a hand that moves to a square, drawn into images, in robomimic's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data import RobomimicWriter

SIZE = 24  # pixels


def make_dataset(
    path: Path,
    demos: int = 4,
    *,
    steps: int = 12,
    seed: int = 0,
    background: tuple[int, int, int] = (40, 40, 40),
    mirrored: bool = False,
    camera: str = "agentview_image",
    action_dim: int = 3,
    size: int = SIZE,
) -> Path:
    """Write ``demos`` demonstrations; the action is the way from the hand to the square, and a gripper."""
    rng = np.random.default_rng(seed)
    with RobomimicWriter(path, env_args={"env_name": "Reach", "type": 2, "env_kwargs": {}}) as writer:
        for _ in range(demos):
            goal, hand = rng.uniform(-0.8, 0.8, 2), rng.uniform(-0.8, 0.8, 2)
            actions, images, positions = [], [], []
            for step in range(steps):
                way = np.clip(goal - hand, -0.25, 0.25) * 4
                image = np.empty((size, size, 3), np.uint8)
                image[:] = background
                for point, color in ((goal, (220, 40, 40)), (hand, (40, 40, 220))):
                    row, column = ((point + 1) / 2 * (size - 4)).astype(int)
                    image[row : row + 4, column : column + 4] = color
                images.append(image)
                positions.append(np.r_[hand, 0.0])
                action = np.zeros(action_dim)
                action[:2] = way * (-1 if mirrored else 1)
                action[-1] = 1.0 if step > steps // 2 else -1.0
                actions.append(action)
                hand = hand + way / 4 * 0.6
            obs: dict[str, NDArray[Any]] = {
                camera: np.array(images),
                "robot0_eef_pos": np.array(positions, np.float32),
            }
            placements = json.dumps({"square": [*goal, 0.0]})
            writer.add_episode(
                None, np.array(actions, np.float32), obs, attributes={"placements": placements}
            )
    return path
