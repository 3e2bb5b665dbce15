"""Parts of a compiled model by their names."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.tasks import Task


class ModelNames:
    """Ids of bodies, geoms and sites, looked up once each."""

    task: Task
    model: Any
    mujoco: Any

    @cached_property
    def _ids(self) -> dict[tuple[str, str], int]:
        return {}

    def body(self, name: str) -> int:
        """The id of a body."""
        return self._cached("BODY", name)

    def geom(self, name: str) -> int:
        """The id of a geom."""
        return self._cached("GEOM", name)

    def site(self, name: str) -> int:
        """The id of a site."""
        return self._cached("SITE", name)

    def joint_address(self, name: str) -> int:
        """Where a joint's coordinates start in qpos."""
        return int(self.model.jnt_qposadr[self._cached("JOINT", name)])

    def pose(self, data: Any, name: str) -> Array:
        """The pose of one of the task's objects, (4, 4)."""
        body = self.body(self.task.bodies[name])
        pose = np.eye(4)
        pose[:3, :3] = data.xmat[body].reshape(3, 3)
        pose[:3, 3] = data.xpos[body]
        return pose

    def _id(self, object_type: str, name: str) -> int:
        mujoco = self.mujoco
        index = int(mujoco.mj_name2id(self.model, getattr(mujoco.mjtObj, f"mjOBJ_{object_type}"), name))
        if index < 0:
            raise UserError(f"{self.task.name}: the model has no {object_type.lower()} named '{name}'")
        return index

    def _cached(self, object_type: str, name: str) -> int:
        key = (object_type, name)
        if key not in self._ids:
            self._ids[key] = self._id(object_type, name)
        return self._ids[key]

    def _geoms(self, prefixes: tuple[str, ...]) -> Array:
        """Which colliding geoms' names start with one of the prefixes, (ngeom,)."""
        geom = self.mujoco.mjtObj.mjOBJ_GEOM
        names = [self.mujoco.mj_id2name(self.model, geom, index) or "" for index in range(self.model.ngeom)]
        members = np.array([name.startswith(prefixes) and not name.endswith("_vis") for name in names])
        if not members.any():
            raise UserError(f"{self.task.name}: no geom is called like {', '.join(prefixes)}")
        return members
