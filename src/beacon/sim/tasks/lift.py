"""Lift: raise a cube off the table. robosuite's smallest task, for first steps and tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from beacon.sim import regions
from beacon.sim.tasks.base import TABLE_HEIGHT, UPRIGHT_JOINTS, Camera, Size, Subtask, Task, looking_at
from beacon.sim.tasks.mjcf import Part, free_body, wood

if TYPE_CHECKING:
    import mujoco

    from beacon.sim.world import World

HALF = 0.021
CLOSE_CAMERA = looking_at((0.345, 0.0, 1.325), (0.0, 0.0, 0.835), 32.0)
AGENT_VIEW = Camera((0.5, 0.0, 1.35), (0.653, 0.271, 0.271, 0.653))


class Lift(Task):
    """Grasp the cube and raise its centre 4 cm above the table."""

    name = "lift"
    bodies = {"cube": "cube_main"}  # noqa: RUF012 - never changed
    heights = {"cube": HALF}  # noqa: RUF012
    success = "lifted"
    subtasks = (Subtask("cube", None),)
    selection = "nearest"
    expert = "beacon.sim.experts.stack:LiftExpert"

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Small: fixed yaw and a close camera. Full: any yaw."""
        return {
            "small": Size(
                name="small",
                horizon=60,
                action_dim=4,
                gripper_speed=0.5,
                joint_noise=0.01,
                camera=CLOSE_CAMERA,
                rotated_camera=CLOSE_CAMERA.about_table(45),
                regions={"cube": regions.box((-0.10, 0.10), (-0.10, 0.10))},
                arm=UPRIGHT_JOINTS,
            ),
            "full": Size(
                name="full",
                horizon=200,
                action_dim=7,
                gripper_speed=0.2,
                joint_noise=0.02,
                camera=AGENT_VIEW,
                rotated_camera=AGENT_VIEW.about_table(45),
                regions={"cube": regions.box((-0.08, 0.08), (-0.08, 0.08), (-np.pi, np.pi))},
            ),
        }

    def assets(self) -> str:
        """The cube's red wood."""
        return wood("redwood", "red-wood")

    def objects(self) -> str:
        """One cube."""
        return free_body("cube", [Part((HALF,) * 3, material="redwood_mat", density=1000)])

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The cube."""
        return {"cube": ("cube_g",)}

    def criteria(self, world: World, data: mujoco.MjData) -> dict[str, bool]:
        """``lifted`` is the task."""
        height = float(data.xpos[world.body("cube_main"), 2])
        return {
            "grasped": world.grasping(data, "cube"),
            "lifted": height > TABLE_HEIGHT + 0.04,
        }
