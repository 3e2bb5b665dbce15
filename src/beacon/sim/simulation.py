"""What a simulated world and an episode in it offer, whichever simulator is behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from beacon.errors import UserError
from beacon.sim.addresses import load_attribute
from beacon.sim.arrays import Array
from beacon.sim.domains import Domain
from beacon.sim.rendering import IMAGE_SIZE, Renderer
from beacon.sim.tasks import Placement, Task, make_task


@dataclass(frozen=True)
class InitialState:
    """The start of an episode: joint positions of the whole model, and the seed of its sensor noise."""

    qpos: tuple[float, ...]  # of Meta-World's tasks: where objects and goals are, as the task draws them
    seed: int
    placements: Mapping[str, Placement]


IMAGE_KEY = "agentview_image"
IMAGE = "_image"  # robosuite's ending of a camera's picture
READINGS = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")


class SimulatedWorld(ABC):
    """A task in a domain; episodes share it."""

    task: Task
    domain: Domain
    image_size: int
    control_rate: ClassVar[int]  # control steps a second
    image_key: ClassVar[str] = IMAGE_KEY  # what observations call the picture
    other_cameras: ClassVar[Mapping[str, str]] = {}  # what they call other pictures -> the camera's name
    readings: ClassVar[tuple[str, ...]] = READINGS  # what else they have

    @property
    @abstractmethod
    def renderer(self) -> Any:
        """Draws what `posed` gives, (H, W, 3) uint8."""

    @property
    def image_keys(self) -> tuple[str, ...]:
        """All pictures that observations can have; `image_key` is the first."""
        return (self.image_key, *self.other_cameras)

    def draw(self, data: Any, key: str) -> Array:
        """One of the pictures of what `posed` gives, (H, W, 3) uint8."""
        return np.asarray(self.renderer(data))

    @abstractmethod
    def episode(self) -> SimulatedEpisode:
        """A new episode, to be reset before anything else."""

    @abstractmethod
    def initial_state(self, region: str, seed: int) -> InitialState:
        """The start that belongs to a seed: the same in every domain, on every machine."""

    @abstractmethod
    def start_of(self, state: Array) -> tuple[float, ...]:
        """`InitialState.qpos` of an episode, from its first recorded state."""

    @abstractmethod
    def posed(self, states: Sequence[Array]) -> Iterator[Any]:
        """The simulator in each of an episode's recorded states, ready to be drawn."""

    @property
    @abstractmethod
    def state_size(self) -> int:
        """Numbers of a recorded state."""

    @abstractmethod
    def environment(self, region: str) -> dict[str, Any]:
        """What robomimic's ``env_args`` say: ``env_name``, ``env_version``, ``type`` and ``env_kwargs``."""

    def model_file(self) -> str:
        """The model as MJCF for datasets; empty where states alone do not rebuild a scene."""
        return ""

    def close(self) -> None:
        """Free the renderer, if there is one."""
        return


class MuJoCoWorld(SimulatedWorld):
    """A world that MuJoCo simulates and draws."""

    model: Any  # MuJoCo's
    mujoco: Any  # the module

    @cached_property
    def renderer(self) -> Renderer:
        """Made when the first picture is asked for, so that physics alone needs no OpenGL."""
        return Renderer(self.model, self.image_size, shadows=self.domain.look.shadows)

    @cached_property
    def _other_renderers(self) -> dict[str, Renderer]:
        return {}  # by picture, made when it is asked for

    def draw(self, data: Any, key: str) -> Array:
        """One of the pictures, by the camera that it belongs to."""
        if key == self.image_key:
            return self.renderer(data)
        if key not in self._other_renderers:
            self._other_renderers[key] = Renderer(
                self.model,
                self.image_size,
                shadows=self.domain.look.shadows,
                camera=self.other_cameras[key],
            )
        return self._other_renderers[key](data)

    def close(self) -> None:
        """Free the renderers, if there are any."""
        for renderer in self._other_renderers.values():
            renderer.close()
        self._other_renderers.clear()
        if "renderer" in self.__dict__:
            self.renderer.close()
            del self.__dict__["renderer"]


class SimulatedEpisode(ABC):
    """One run of a world."""

    data: Any  # MuJoCo's, where it simulates
    steps: int  # control steps taken

    @property
    @abstractmethod
    def world(self) -> SimulatedWorld:
        """Where it runs."""

    @abstractmethod
    def reset(self, initial: InitialState) -> None:
        """Start again from an initial state."""

    @abstractmethod
    def step(self, action: Array) -> None:
        """One control step."""

    @abstractmethod
    def criteria(self) -> Mapping[str, float]:
        """The task's criteria now: true or false, or a measure."""

    @abstractmethod
    def state(self) -> Array:
        """The flattened state, time first."""

    @abstractmethod
    def observe(self, image: bool = True, cameras: Sequence[str] = ()) -> dict[str, Array]:
        """What the policy sees, in the names of its data; call once a control step (noise advances).

        Args:
            image: whether there are pictures.
            cameras: which of `SimulatedWorld.image_keys`; none said: the first.
        """

    def privileged(self) -> dict[str, Array]:
        """Exact poses of the task's objects, (4, 4) each; none where nobody needs them."""
        return {}


def make_world(
    task: str, domain: str | Path | Domain = "source", size: str = "full", image_size: int = IMAGE_SIZE
) -> SimulatedWorld:
    """The world of a task, in the simulator that the task belongs to.

    Args:
        task: its name, as for `beacon.sim.tasks.find_task`.
        domain: a registered name, a YAML file, or the domain itself.
        size: "small" or "full".
        image_size: height and width of pictures.
    """
    made = make_task(task, size)
    world: SimulatedWorld = load_attribute(made.world, "the world")(made, domain, size, image_size)
    return world


def picture_keys(world: SimulatedWorld, cameras: Sequence[str]) -> tuple[str, ...]:
    """What observations call the pictures of some cameras.

    Args:
        world: whose cameras.
        cameras: names such as ``agentview``, or of their pictures.
    """
    keys = tuple(dict.fromkeys(name if name.endswith(IMAGE) else f"{name}{IMAGE}" for name in cameras))
    for key in keys:
        if key not in world.image_keys:
            known = ", ".join(name.removesuffix(IMAGE) for name in world.image_keys)
            raise UserError(f"--cameras {key.removesuffix(IMAGE)}: {world.task.name} has {known}")
    if not keys:
        raise UserError("--cameras: name at least one")
    return keys
