"""Threading: grasp the needle and put it through the ring on the tripod."""

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
from beacon.sim.tasks.mjcf import Part, free_body, geoms, numbers

if TYPE_CHECKING:
    import mujoco

    from beacon.sim.world import World

GRIP_HALF = (0.022, 0.011, 0.013)
SHAFT_HALF = (0.038, 0.004, 0.004)
SHAFT_CENTRE = GRIP_HALF[0] + SHAFT_HALF[0]  # along the needle's x axis, which points to the tip
SEGMENTS = 14
STANDS_AT = {"small": (0.0, -0.12), "full": (0.0, -0.15)}
CLOSE_CAMERA = looking_at((0.335, 0.01, 1.36), (-0.02, 0.01, 0.86), 38.0)
AGENT_VIEW = Camera((0.5, 0.0, 1.35), (0.653, 0.271, 0.271, 0.653))


@dataclass(frozen=True)
class Ring:
    """A ring in the plane x-z: the needle comes along -y."""

    radius: float  # to the middle of the wire
    wire: float  # half its thickness
    height: float  # of the centre above the table


RINGS = {"small": Ring(0.028, 0.004, 0.115), "full": Ring(0.0165, 0.003, 0.12)}


class Threading(Task):
    """Threaded: the shaft's middle is nearer to the ring's centre than the ring's radius."""

    name = "threading"
    bodies = {"needle": "needle_main", "tripod": "tripod_main"}  # noqa: RUF012 - never changed
    heights = {"needle": GRIP_HALF[2]}  # noqa: RUF012
    success = "threaded"
    subtasks = (Subtask("needle", "grasped", (5, 10)), Subtask("tripod", None, (5, 10)))
    expert = "beacon.sim.experts.threading:ThreadingExpert"

    def __init__(self, size: str = "full") -> None:
        super().__init__(size)
        self.ring = RINGS[size]

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Small: fixed yaw, nearer, a wide ring. Full: the paper's placements."""
        return {
            "small": Size(
                name="small",
                horizon=130,
                action_dim=4,
                gripper_speed=0.5,
                joint_noise=0.01,
                camera=CLOSE_CAMERA,
                rotated_camera=CLOSE_CAMERA.about_table(-45),
                regions={"needle": regions.box((-0.13, 0.09), (0.05, 0.19), (-np.pi / 2, -np.pi / 2))},
                arm=SIDEWAYS_JOINTS,
            ),
            "full": Size(
                name="full",
                horizon=400,
                action_dim=7,
                gripper_speed=0.2,
                joint_noise=0.02,
                camera=AGENT_VIEW,
                rotated_camera=Camera((0.3536, -0.3536, 1.35), (0.8617, 0.3331, 0.1380, 0.3569)),
                regions={"needle": regions.box((-0.2, -0.05), (0.15, 0.25), (-2 * np.pi / 3, -np.pi / 3))},
                arm=PANDA_JOINTS,
            ),
        }

    def objects(self) -> str:
        """The needle and the ring on its tripod."""
        return self._needle() + self._tripod()

    def _needle(self) -> str:
        parts = [
            Part(GRIP_HALF, colour=(0.85, 0.55, 0.1, 1.0), name="grip", density=400, friction=1.2),
            Part(SHAFT_HALF, (SHAFT_CENTRE, 0, 0), colour=(0.55, 0.1, 0.55, 1.0), name="shaft", density=200),
        ]
        return free_body("needle", parts)

    def _tripod(self) -> str:
        ring, dark = self.ring, (0.08, 0.55, 0.55, 1.0)
        length = float(ring.radius * np.tan(np.pi / SEGMENTS)) + 0.0005
        parts = []
        for index, angle in enumerate(2 * np.pi * np.arange(SEGMENTS) / SEGMENTS):
            x, z = ring.radius * np.cos(angle), ring.radius * np.sin(angle)
            parts.append(
                Part(
                    (ring.wire, ring.wire, length),
                    (float(x), 0.0, float(ring.height + z)),
                    (0.0, float(-angle), 0.0),
                    colour=dark,
                    name=f"ring{index}",
                )
            )
        foot = ring.height - ring.radius - ring.wire
        for index, angle in enumerate((np.pi / 2, np.pi * 7 / 6, np.pi * 11 / 6)):
            spread = 0.035
            lean = float(np.arctan2(spread, foot))
            parts.append(
                Part(
                    (0.004, 0.004, float(np.hypot(spread, foot)) / 2),
                    (float(spread * np.cos(angle) / 2), float(spread * np.sin(angle) / 2), foot / 2),
                    # Tilted about the axis that is square to the leg's own direction.
                    tuple(_leaning(float(angle), -lean)),
                    colour=dark,
                    name=f"leg{index}",
                )
            )
        site = f'<site name="ring_centre" pos="0 0 {ring.height}" size="0.002" group="4"/>'
        position = numbers((*STANDS_AT[self.size.name], TABLE_HEIGHT))
        return f'<body name="tripod_main" pos="{position}">{geoms("tripod", parts)}{site}</body>'

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The needle and the ring."""
        return {"needle": ("needle_",), "ring": ("tripod_ring",)}

    def criteria(self, world: World, data: mujoco.MjData) -> dict[str, bool]:
        """``threaded`` is the task; ``through`` says that the tip has passed the ring's plane inside it."""
        needle, centre = world.body("needle_main"), data.site_xpos[world.site("ring_centre")]
        axis = data.xmat[needle].reshape(3, 3)[:, 0]
        shaft = data.xpos[needle] + SHAFT_CENTRE * axis
        threaded = bool(np.linalg.norm(shaft - centre) < self.ring.radius)
        return {
            "grasped": world.grasping(data, "needle"),
            "lifted": bool(data.xpos[needle][2] > TABLE_HEIGHT + 0.05),
            "through": _crosses(shaft, axis, centre, self.ring.radius),
            "threaded": threaded,
        }


def _crosses(shaft: Array, axis: Array, centre: Array, radius: float) -> bool:
    """Whether the shaft, a line segment, passes the ring's plane (through ``centre``, normal y) inside it."""
    if abs(axis[1]) < 1e-6:
        return False
    along = (centre[1] - shaft[1]) / axis[1]
    point = shaft + along * axis
    return bool(abs(along) <= SHAFT_HALF[0] and np.hypot(*(point - centre)[[0, 2]]) < radius)


def _leaning(angle: float, lean: float) -> Array:
    """Euler angles (x-y-z, extrinsic) of a vertical bar leaning by ``lean`` towards the heading ``angle``."""
    from scipy.spatial.transform import Rotation

    axis = np.array([-np.sin(angle), np.cos(angle), 0.0])
    euler: Array = Rotation.from_rotvec(lean * axis).as_euler("xyz")
    return euler
