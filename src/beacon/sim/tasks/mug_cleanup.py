"""Mug cleanup: open the drawer, put the mug in upright, close the drawer. All of it from primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beacon.sim import regions
from beacon.sim.arrays import Array
from beacon.sim.tasks.base import (
    PANDA_JOINTS,
    SIDEWAYS_JOINTS,
    TABLE_HEIGHT,
    Camera,
    Size,
    Subtask,
    Task,
    looking_at,
)
from beacon.sim.tasks.mjcf import Part, free_body, geoms, numbers, wood

if TYPE_CHECKING:
    import mujoco

    from beacon.sim.world import World

CLOSED = 0.01  # metres that a completely closed drawer may be open
NEARLY_CLOSED = 0.05
UPRIGHT = 1e-3  # largest 1 - cos(tilt)


@dataclass(frozen=True)
class Furniture:
    """Dimensions in metres. The drawer slides out towards -y; its joint is zero when closed."""

    cabinet: tuple[float, float]  # x, y of its centre
    depth: float = 0.085  # half of the cabinet's
    width: float = 0.085  # half of the drawer's
    travel: float = 0.14
    opened: float = 0.11  # how far out counts as open
    handle: float = 0.06  # the bar's distance from the drawer's front
    grip: float = 0.064  # the bar's height above the table
    mug_radius: float = 0.028
    mug_height: float = 0.065


FURNITURE = {
    "small": Furniture(
        cabinet=(0.0, 0.22), depth=0.075, width=0.08, travel=0.12, opened=0.085, handle=0.06, mug_radius=0.023
    ),
    "full": Furniture(cabinet=(0.0, 0.3)),
}
CLOSE_CAMERA = looking_at((0.37, 0.045, 1.40), (-0.02, 0.045, 0.84), 41.0)
ROTATED_VIEW = Camera((0.5325, 0.5325, 1.5195), (0.3481, 0.1589, 0.3837, 0.8404))
AGENT_VIEW = ROTATED_VIEW.about_table(-45)  # drawer and mug both fit only from as far as that


class MugCleanup(Task):
    """A success counts one; a mug that lies, or a drawer left ajar, counts half at the end.

    ``paper_score`` is the paper's: half a point for a mug inside the drawer that is not upright, or whose
    drawer is not completely closed, or both. ``score`` is stricter, and ours: the drawer must be nearly
    closed, and only one of the two may fail.
    """

    name = "mug-cleanup"
    bodies = {"mug": "mug_main", "drawer": "cabinet_main"}  # noqa: RUF012 - never changed
    heights = {"mug": 0.0325}  # noqa: RUF012
    success = "tidy"
    subtasks = (Subtask("drawer", "opened"), Subtask("mug", "grasped"), Subtask("drawer", None))
    expert = "beacon.sim.experts.mug_cleanup:MugCleanupExpert"
    reported = ("paper_score", "score", "success")

    def __init__(self, size: str = "full") -> None:
        super().__init__(size)
        self.furniture = FURNITURE[size]

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Small: fixed yaw, nearer, a large handle. Full: the paper's placements."""
        return {
            "small": Size(
                name="small",
                horizon=220,
                action_dim=4,
                gripper_speed=0.5,
                joint_noise=0.01,
                camera=CLOSE_CAMERA,
                rotated_camera=CLOSE_CAMERA.about_table(45),
                regions={"mug": regions.framed((-0.09, 0.07), (-0.17, -0.08), (-np.pi / 2, -np.pi / 2))},
                arm=SIDEWAYS_JOINTS,
            ),
            "full": Size(
                name="full",
                horizon=500,
                action_dim=7,
                gripper_speed=0.2,
                joint_noise=0.02,
                camera=AGENT_VIEW,
                rotated_camera=ROTATED_VIEW,
                regions={"mug": regions.framed((-0.15, 0.15), (-0.25, -0.10), (-np.pi, np.pi))},
                arm=PANDA_JOINTS,
            ),
        }

    def assets(self) -> str:
        """Two woods."""
        return wood("cabinetwood", "dark-wood") + wood("drawerwood", "light-wood")

    def objects(self) -> str:
        """The cabinet with its drawer, and the mug."""
        return self._cabinet() + self._mug()

    def _cabinet(self) -> str:
        f = self.furniture
        top, side = 0.092, 0.044
        wide = f.width + 0.014
        shell = [
            Part((wide, f.depth, 0.004), (0, 0, top), material="cabinetwood_mat", name="top"),
            Part((0.005, f.depth, side), (-wide + 0.005, 0, side), material="cabinetwood_mat", name="left"),
            Part((0.005, f.depth, side), (wide - 0.005, 0, side), material="cabinetwood_mat", name="right"),
            Part((wide, 0.005, side), (0, f.depth - 0.005, side), material="cabinetwood_mat", name="back"),
        ]
        front = -f.depth - 0.006
        inside = f.depth - 0.012
        bar = front - f.handle
        grey = (0.75, 0.75, 0.78, 1.0)
        tray = [
            Part((f.width, inside, 0.003), (0, 0, 0.011), material="drawerwood_mat", name="floor"),
            Part((0.004, inside, 0.02), (-f.width + 0.004, 0, 0.03), material="drawerwood_mat", name="left"),
            Part((0.004, inside, 0.02), (f.width - 0.004, 0, 0.03), material="drawerwood_mat", name="right"),
            Part((f.width, 0.004, 0.02), (0, inside - 0.004, 0.03), material="drawerwood_mat", name="back"),
            Part((f.width, 0.005, 0.038), (0, front, 0.046), material="drawerwood_mat", name="front"),
            Part((0.05, 0.006, 0.009), (0, bar, f.grip), colour=grey, name="bar"),
            Part(
                (0.005, f.handle / 2, 0.006),
                (-0.045, front - f.handle / 2, f.grip),
                colour=grey,
                name="post0",
            ),
            Part(
                (0.005, f.handle / 2, 0.006), (0.045, front - f.handle / 2, f.grip), colour=grey, name="post1"
            ),
        ]
        joint = (
            f'<joint name="drawer_joint" type="slide" axis="0 1 0" range="{-f.travel} 0" limited="true" '
            'damping="8" frictionloss="0.8" armature="0.2"/>'
        )
        # The floor ends behind the front, so that the two meet.
        floor = f'<body name="drawer_main">{geoms("drawer", tray)}{joint}</body>'
        position = numbers((*f.cabinet, TABLE_HEIGHT))
        return f'<body name="cabinet_main" pos="{position}">{geoms("cabinet", shell)}{floor}</body>'

    def _mug(self) -> str:
        f = self.furniture
        half, blue = f.mug_height / 2, (0.15, 0.35, 0.8, 1.0)
        segments, wall = 12, 0.0025
        reach = f.mug_radius - wall
        tangent = f.mug_radius * np.tan(np.pi / segments)
        # The mug stands on its bottom alone, a square for the physics: twelve walls that touched the floor
        # too would make dozens of contacts.
        parts = [
            Part(
                (wall, float(tangent), half - 0.001),
                (float(reach * np.cos(angle)), float(reach * np.sin(angle)), 0.001),
                (0.0, 0.0, float(angle)),
                colour=blue,
                name=f"wall{index}",
            )
            for index, angle in enumerate(2 * np.pi * np.arange(segments) / segments)
        ]
        square = 0.68 * f.mug_radius
        parts += [
            Part((square, square, 0.003), (0, 0, -half + 0.003), name="bottom", visible=False, density=800),
            Part(
                (reach, 0.003),
                (0, 0, -half + 0.003),
                shape="cylinder",
                colour=blue,
                name="disc",
                collides=False,
            ),
        ]
        out = f.mug_radius + 0.011
        parts += [
            Part((0.011, 0.004, 0.003), (out, 0, 0.016), colour=blue, name="handle0", density=100),
            Part((0.011, 0.004, 0.003), (out, 0, -0.014), colour=blue, name="handle1", density=100),
            Part((0.003, 0.004, 0.018), (out + 0.011, 0, 0.001), colour=blue, name="handle2", density=100),
        ]
        return free_body("mug", parts)

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The mug, the drawer's floor, the handle's bar."""
        return {"mug": ("mug_",), "floor": ("drawer_floor",), "bar": ("drawer_bar",)}

    def opening(self, world: World, data: mujoco.MjData) -> float:
        """How far the drawer is open, metres."""
        return -float(data.qpos[world.joint_address("drawer_joint")])

    def criteria(self, world: World, data: mujoco.MjData) -> dict[str, bool]:
        """``tidy``: the mug stands on the drawer's floor and the drawer is completely closed."""
        opening = self.opening(world, data)
        mug = world.body("mug_main")
        local = data.xpos[mug] - data.xpos[world.body("drawer_main")]
        inside = bool(
            abs(local[0]) < self.furniture.width and abs(local[1]) < self.furniture.depth and local[2] < 0.06
        )
        on_floor = inside and world.touching(data, "mug", "floor")
        upright = bool(1.0 - data.xmat[mug][8] < UPRIGHT)
        return {
            "opened": opening > self.furniture.opened,
            "grasped": world.grasping(data, "mug"),
            "inside": inside,
            "on_floor": on_floor,
            "upright": upright,
            "closed": opening < CLOSED,
            "nearly_closed": opening < NEARLY_CLOSED,
            "tidy": on_floor and upright and opening < CLOSED,
        }

    def outcomes(self, frames: Mapping[str, Array]) -> dict[str, float]:
        """``success`` at any frame; both scores add half points for what nearly worked at the end."""
        success = bool(np.any(frames["tidy"]))
        last = {name: bool(flags[-1]) for name, flags in frames.items()}
        half = last["inside"] and not (last["upright"] and last["closed"])
        strict_half = half and last["nearly_closed"] and (last["upright"] or last["closed"])
        return {
            "success": float(success),
            "score": 1.0 if success else 0.5 * strict_half,
            "paper_score": 1.0 if success else 0.5 * half,
        }
