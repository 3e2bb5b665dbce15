"""A task of Meta-World as one of ours: where objects start, cameras, criteria."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from beacon.errors import UserError
from beacon.sim import regions
from beacon.sim.metaworld.package import pristine_environment
from beacon.sim.tasks.base import Size, Task, looking_at, title_of

FAMILY = "metaworld"
PARTS = ("object", "goal")  # of what a task draws at the start of an episode, three coordinates each
# Close enough for objects to be some pixels wide at 64 px. The other one is turned by 45 degrees about the
# middle of the table.
MIDDLE = (0.0, 0.7, 0.1)
CAMERA = looking_at((0.7, 0.0, 0.75), MIDDLE, 45.0)
ROTATED_CAMERA = looking_at((0.99, 0.7, 0.75), MIDDLE, 45.0)


class MetaWorldTask(Task):
    """Success is what the package calls success, in any frame."""

    environment: ClassVar[str]  # its name in the package
    bodies: ClassVar[Mapping[str, str]] = {}
    heights: ClassVar[Mapping[str, float]] = {}
    success = "success"
    subtasks = ()
    expert = "beacon.sim.metaworld.expert:MetaWorldExpert"
    world = "beacon.sim.metaworld.world:MetaWorld"

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Small: 200 control steps. Full: the package's 500. Nothing else differs."""
        space = pristine_environment(cls.environment)._random_reset_space
        starts = _regions(cls.environment, space.low, space.high)
        return {name: _size(name, horizon, starts) for name, horizon in (("small", 200), ("full", 500))}

    def objects(self) -> str:
        """None: the scene is the package's."""
        return ""

    @property
    def contact_groups(self) -> Mapping[str, tuple[str, ...]]:
        """None: the criteria are the package's."""
        return {}

    def criteria(self, world: Any, data: Any) -> dict[str, bool]:
        """Unknown of a bare state: episodes tell (`MetaWorldEpisode.criteria`)."""
        raise NotImplementedError("Meta-World judges a step that was taken, not a state")


def _size(name: str, horizon: int, starts: Mapping[str, Mapping[str, regions.Region]]) -> Size:
    return Size(
        name=name,
        horizon=horizon,
        action_dim=4,
        gripper_speed=1.0,
        joint_noise=0.0,
        camera=CAMERA,
        rotated_camera=ROTATED_CAMERA,
        regions=starts,
    )


def _regions(name: str, low: Any, high: Any) -> dict[str, dict[str, regions.Region]]:
    """Boxes on the table of whatever the task draws, its object first, then its goal."""
    if len(low) % 3 or len(low) > 3 * len(PARTS):
        raise UserError(f"metaworld/{name} draws {len(low)} numbers at its start; 3 or 6 are understood")
    return {
        part: regions.box(
            (float(low[first]), float(high[first])), (float(low[first + 1]), float(high[first + 1]))
        )
        for part, first in zip(PARTS, range(0, len(low), 3), strict=False)
    }


def start_heights(task: MetaWorldTask, rng: np.random.Generator) -> dict[str, float]:
    """A height for everything that is placed, drawn from what the package allows."""
    space = pristine_environment(task.environment)._random_reset_space
    draws = rng.uniform(space.low[2::3], space.high[2::3])
    return dict(zip(PARTS, draws.tolist(), strict=False))


@cache
def task_class(name: str) -> type[MetaWorldTask]:
    """The task's class; the package is not needed before it is made.

    Args:
        name: of the environment, as in ``door-open-v3``.
    """
    title = title_of(name)
    fields = {"name": f"{FAMILY}/{name}", "environment": name, "title": title}
    return type(f"MetaWorld{title}", (MetaWorldTask,), fields)
