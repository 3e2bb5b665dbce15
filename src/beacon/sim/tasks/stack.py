"""Stack: the smaller cube A onto the larger cube B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.sim import regions
from beacon.sim.arrays import Array
from beacon.sim.tasks.base import (
    TABLE_HEIGHT,
    UPRIGHT_JOINTS,
    Camera,
    Placement,
    Size,
    Subtask,
    Task,
    distance,
    longest_run,
    looking_at,
)
from beacon.sim.tasks.mjcf import Part, free_body, wood

if TYPE_CHECKING:
    import mujoco

    from beacon.sim.world import World

HALF_A, HALF_B = 0.02, 0.025
CLOSE_CAMERA = looking_at((0.345, 0.0, 1.325), (0.0, 0.0, 0.835), 32.0)
AGENT_VIEW = Camera((0.5, 0.0, 1.35), (0.653, 0.271, 0.271, 0.653))
STRICT_FRAMES = 5


class Stack(Task):
    """R: stacked at any frame. S: for five consecutive frames, or at the last."""

    name = "stack"
    bodies = {"cubeA": "cubeA_main", "cubeB": "cubeB_main"}  # noqa: RUF012 - never changed
    heights = {"cubeA": HALF_A, "cubeB": HALF_B}  # noqa: RUF012
    success = "stacked"
    subtasks = (Subtask("cubeA", "grasped"), Subtask("cubeB", None))
    selection = "nearest"
    expert = "beacon.sim.experts.stack:StackExpert"
    reported = ("R", "S")
    wrong_object = "beacon.sim.tasks.wrong_object:WrongStack"
    carried: ClassVar[str] = "cubeA"

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Small: fixed yaw, ±0.10 m, a close camera. Full: any yaw, ±0.12 m, robosuite's agent view."""
        near = regions.box((-0.10, 0.10), (-0.10, 0.10))
        wide = regions.box((-0.12, 0.12), (-0.12, 0.12), (-np.pi, np.pi))
        return {
            "small": Size(
                name="small",
                horizon=130,
                action_dim=4,
                gripper_speed=0.5,
                joint_noise=0.01,
                camera=CLOSE_CAMERA,
                rotated_camera=CLOSE_CAMERA.about_table(45),
                regions={"cubeA": near, "cubeB": near},
                arm=UPRIGHT_JOINTS,
            ),
            "full": Size(
                name="full",
                horizon=400,
                action_dim=7,
                gripper_speed=0.2,
                joint_noise=0.02,
                camera=AGENT_VIEW,
                rotated_camera=Camera((0.3536, 0.3536, 1.35), (0.3569, 0.1380, 0.3331, 0.8617)),
                regions={"cubeA": wide, "cubeB": wide},
            ),
        }

    def assets(self) -> str:
        """Red and green wood."""
        return wood("redwood", "red-wood") + wood("greenwood", "green-wood")

    def objects(self) -> str:
        """Two cubes."""
        return free_body("cubeA", [Part((HALF_A,) * 3, material="redwood_mat", density=1000)]) + free_body(
            "cubeB", [Part((HALF_B,) * 3, material="greenwood_mat", density=1000)]
        )

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """One group a cube."""
        return {"cubeA": ("cubeA_g",), "cubeB": ("cubeB_g",)}

    def valid(self, placements: Mapping[str, Placement]) -> bool:
        """Far enough apart for the open fingers to pass between."""
        # A hand that cannot turn needs more room.
        apart = 0.09 if self.size.action_dim == 4 else 0.065
        return distance(placements["cubeA"], placements["cubeB"]) > apart

    def criteria(self, world: World, data: mujoco.MjData) -> dict[str, bool]:
        """``stacked``: A is not held, its centre is more than 4 cm above the table, and it touches B."""
        grasped = world.grasping(data, self.carried)
        lifted = float(data.xpos[world.body(self.bodies[self.carried]), 2]) > TABLE_HEIGHT + 0.04
        touching = lifted and world.touching(data, "cubeA", "cubeB")
        return {
            "grasped": grasped,
            "lifted": lifted,
            "touching": touching,
            "stacked": touching and not grasped,
        }

    def outcomes(self, frames: Mapping[str, Array]) -> dict[str, float]:
        """``R`` (reported as success) and ``S``."""
        stacked = np.asarray(frames["stacked"], dtype=bool)
        anywhere = bool(stacked.any())
        strict = longest_run(stacked) >= STRICT_FRAMES or bool(len(stacked) and stacked[-1])
        return {"success": float(anywhere), "R": float(anywhere), "S": float(strict)}

    def settled(self, frames: Mapping[str, Array]) -> bool:
        """S by its last-frame clause can still be lost, so only five frames in a row settle it."""
        return longest_run(np.asarray(frames["stacked"], dtype=bool)) >= STRICT_FRAMES
