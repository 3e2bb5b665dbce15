"""What every task has: objects as MJCF, placements, criteria of success, subtasks, cameras, two sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.regions import REGIONS, Region

if TYPE_CHECKING:
    import mujoco

    from beacon.sim.world import World

TABLE_HEIGHT = 0.8
SIZES = ("small", "full")
# robosuite's initial joints for the Panda: hand over the table's near half, pointing down.
PANDA_JOINTS = (0.0, np.pi / 16, 0.0, -np.pi / 2 - np.pi / 3, 0.0, np.pi - 0.2, np.pi / 4)
# The same with the hand exactly vertical, for actions that cannot turn it.
UPRIGHT_JOINTS = (*PANDA_JOINTS[:5], np.pi / 16 + np.pi / 2 + np.pi / 3, np.pi / 4)
# And turned by 90 degrees, so that the fingers open along x and the hand is thin along y.
SIDEWAYS_JOINTS = (*UPRIGHT_JOINTS[:6], -np.pi / 4)


@dataclass(frozen=True)
class Camera:
    """Pose (position, wxyz quaternion, in the world's frame) and vertical field of view in degrees."""

    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    fovy: float = 45.0

    def about_table(self, degrees: float) -> Camera:
        """The same camera turned about the vertical axis through the table's centre."""
        half = np.radians(degrees) / 2
        c, s = float(np.cos(half)), float(np.sin(half))
        w, x, y, z = self.quaternion
        turned = (c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w)
        cos, sin = float(np.cos(2 * half)), float(np.sin(2 * half))
        px, py, pz = self.position
        return Camera((cos * px - sin * py, sin * px + cos * py, pz), turned, self.fovy)


def looking_at(
    position: tuple[float, float, float], target: tuple[float, float, float], fovy: float = 45.0
) -> Camera:
    """An upright camera at ``position`` with ``target`` in the middle of the picture."""
    from scipy.spatial.transform import Rotation

    backward = np.subtract(position, target).astype(float)
    backward /= np.linalg.norm(backward)
    right = np.cross([0.0, 0.0, 1.0], backward)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(backward, right), backward], axis=1)
    x, y, z, w = Rotation.from_matrix(axes).as_quat().tolist()
    return Camera(position, (w, x, y, z), fovy)


@dataclass(frozen=True)
class Size:
    """The numbers in which the small and the full form of a task differ."""

    name: str
    horizon: int  # control steps after which an episode ends
    action_dim: int  # 4: translation and gripper; 7: also rotation
    gripper_speed: float  # share of the fingers' half range that one control step moves the command
    joint_noise: float  # standard deviation of the initial arm joints, radians
    camera: Camera
    rotated_camera: Camera
    regions: Mapping[str, Mapping[str, Region]]  # object -> region name -> where
    arm: tuple[float, ...] = PANDA_JOINTS


@dataclass(frozen=True)
class Subtask:
    """A stretch of a demonstration that is meaningful relative to one object."""

    object: str  # the reference object; see Task.bodies
    until: str | None  # the criterion that ends it; None lasts to the end of the demonstration
    offset: tuple[int, int] = (10, 20)  # extra steps after the criterion, drawn per demonstration


@dataclass(frozen=True)
class Placement:
    """Where one object starts: metres from the table's centre, yaw in radians."""

    x: float
    y: float
    yaw: float


class Task(ABC):
    """One task at one size. Stateless: everything that changes lives in MuJoCo's data."""

    name: ClassVar[str]
    title: ClassVar[str]  # the Gymnasium and robosuite name; by default made of the name
    bodies: ClassVar[Mapping[str, str]]  # object -> MuJoCo body
    heights: ClassVar[Mapping[str, float]]  # movable object -> centre above the table at rest
    success: ClassVar[str]  # the frame criterion behind the reward
    subtasks: ClassVar[tuple[Subtask, ...]]
    selection: ClassVar[str] = "random"  # how the generator picks segments: "nearest" or "random"
    expert: ClassVar[str | None] = None  # the scripted expert: a registered name, or module:Class
    # Outcomes that tables show, the one to compare methods by first.
    reported: ClassVar[tuple[str, ...]] = ("success",)
    # module:Class of the same scene done with the wrong object, where an expert can mistake it.
    wrong_object: ClassVar[str | None] = None
    world: ClassVar[str] = "beacon.sim.world:World"  # module:Class of the simulated world it runs in
    revision: ClassVar[int] = 1  # goes up when the same name comes to mean another task

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls) and "title" not in vars(cls):
            cls.title = title_of(cls.name)

    def __init__(self, size: str = "full") -> None:
        if size not in SIZES:
            raise UserError(f"there is no size '{size}' of {self.name}; take one of {', '.join(SIZES)}")
        self.size: Size = self.sizes()[size]

    @classmethod
    @abstractmethod
    def sizes(cls) -> Mapping[str, Size]:
        """The task's numbers for ``small`` and ``full``."""

    @abstractmethod
    def objects(self) -> str:
        """MJCF bodies to put into the world."""

    def assets(self) -> str:
        """MJCF textures and materials that the objects need."""
        return ""

    @property
    @abstractmethod
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """Names for sets of geoms, each given by prefixes of geom names."""

    @abstractmethod
    def criteria(self, world: World, data: mujoco.MjData) -> dict[str, bool]:
        """Every criterion in the present state."""

    def valid(self, placements: Mapping[str, Placement]) -> bool:
        """Whether the objects, thus placed, do not overlap."""
        return True

    def outcomes(self, frames: Mapping[str, Array]) -> dict[str, float]:
        """Results of an episode from its criteria, each (T,); ``success`` is the one that is reported."""
        return {"success": float(frames[self.success].any())}

    def settled(self, frames: Mapping[str, Array]) -> bool:
        """Whether no later frame can change the outcomes."""
        return all(value >= 1.0 for value in self.outcomes(frames).values())

    def sample(self, region: str, rng: np.random.Generator) -> dict[str, Placement]:
        """Placements of all movable objects, drawn until none overlap."""
        if region not in REGIONS:
            raise UserError(f"there is no region '{region}'; take one of {', '.join(REGIONS)}")
        for _ in range(1000):
            drawn = {name: Placement(*where[region].sample(rng)) for name, where in self.size.regions.items()}
            if self.valid(drawn):
                return drawn
        raise UserError(f"{self.name}: region '{region}' is too small to place all objects apart")

    def describe(self) -> dict[str, Any]:
        """What a dataset records about the task."""
        return {
            "task": self.name,
            "size": self.size.name,
            "horizon": self.size.horizon,
            "action_dim": self.size.action_dim,
            "gripper_speed": self.size.gripper_speed,
            "joint_noise": self.size.joint_noise,
        }


def title_of(name: str) -> str:
    """The name as Gymnasium and robosuite write names.

    >>> title_of("mug-cleanup")
    'MugCleanup'
    """
    return "".join(word[:1].upper() + word[1:] for word in name.replace("_", "-").split("-"))


def distance(a: Placement, b: Placement) -> float:
    """Between two placements, in the plane of the table."""
    return float(np.hypot(a.x - b.x, a.y - b.y))


def longest_run(flags: Array) -> int:
    """Length of the longest stretch of consecutive true values."""
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best
