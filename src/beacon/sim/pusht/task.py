"""PushT as a task: success is a coverage above 95%, and the largest coverage is reported beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.tasks.base import SIZES, Size, Task, looking_at

SIDE = 512.0  # pixels of the board; actions and positions are in these
HORIZON = 300  # control steps, as in the public benchmark
SUCCESS, COVERAGE, LARGEST_COVERAGE = "success", "coverage", "max_coverage"
_ABOVE = looking_at((0.0, 0.0, 1.0), (0.0, 0.01, 0.0))  # the package draws its own picture, from above


class PushT(Task):
    """The package's own goal."""

    name = "pusht"
    goal: ClassVar[tuple[float, float, float]] = (256.0, 256.0, math.pi / 4)  # of the block: x, y, angle
    bodies: ClassVar[Mapping[str, str]] = {}
    heights: ClassVar[Mapping[str, float]] = {}
    success = SUCCESS
    subtasks = ()
    reported = (SUCCESS, LARGEST_COVERAGE)
    proprio = ("agent_pos",)
    packages = ("gym-pusht", "pymunk")
    world = "beacon.sim.pusht.world:PushTWorld"
    recordings = "beacon.sim.pusht.recordings:write_recordings"
    corruptions = "beacon.sim.pusht.corruption:replacements"

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """The same in both sizes; pictures are as large as the policy wants them."""
        return {
            name: Size(
                name,
                horizon=HORIZON,
                action_dim=2,
                gripper_speed=0.0,
                joint_noise=0.0,
                camera=_ABOVE,
                rotated_camera=_ABOVE,
                regions={},
            )
            for name in SIZES
        }

    def objects(self) -> str:
        """Nothing of MuJoCo's."""
        return ""

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """Nothing of MuJoCo's."""
        return {}

    def criteria(self, world: Any, data: Any) -> dict[str, bool]:
        """Asked of an episode, not of MuJoCo's data."""
        raise UserError("pusht is not a task of MuJoCo; ask an episode of PushTWorld")

    def outcomes(self, frames: Mapping[str, Array]) -> dict[str, float]:
        """Success, and the largest share of the goal that the block ever covered."""
        return {
            SUCCESS: float(np.any(frames[SUCCESS])),
            LARGEST_COVERAGE: float(np.max(frames[COVERAGE], initial=0.0)),
        }

    def settled(self, frames: Mapping[str, Array]) -> bool:
        """The package ends an episode at success."""
        return bool(np.any(frames[SUCCESS]))


class PushTMovedGoal(PushT):
    """The same with the goal elsewhere, as in the second set of demonstrations."""

    name = "pusht-moved"
    goal: ClassVar[tuple[float, float, float]] = (356.0, 356.0, math.pi / 4)
