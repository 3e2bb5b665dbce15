"""The tasks as robosuite environments, so that robosuite's and robomimic's own tools can play our datasets.

Importing this module registers ``BeaconLift``, ``BeaconStack``, ``BeaconMugCleanup``, ``BeaconThreading`` and
the tasks of other packages with robosuite. Everything faster and simpler is in :mod:`beacon.sim.world`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import new_class
from typing import Any

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.domains import Domain, domain_from_dict, resolve_domain
from beacon.sim.scene import TABLE_SIZE, add_objects, apply_domain, robosuite_folder
from beacon.sim.tasks import TASKS, make_task
from beacon.sim.tasks.base import TABLE_HEIGHT
from beacon.sim.world import CONTROL_RATE, Episode, World

robosuite_folder()

from robosuite.environments.manipulation.manipulation_env import ManipulationEnv  # noqa: E402
from robosuite.models.arenas import TableArena  # noqa: E402
from robosuite.models.tasks import ManipulationTask  # noqa: E402


class BeaconEnv(ManipulationEnv):  # type: ignore[misc]  # robosuite has no types
    """A task behind robosuite's interface; ``stock=True`` is its own controller (7-D only)."""

    task_name = "stack"

    def __init__(
        self,
        robots: str = "Panda",
        size: str = "small",
        domain: str | Domain | Mapping[str, Any] = "source",
        region: str = "train",
        stock: bool = False,
        use_object_obs: bool = True,
        reward_scale: float | None = 1.0,
        reward_shaping: bool = False,
        **options: Any,
    ) -> None:
        self.task = make_task(self.task_name, size)
        self.domain = domain_from_dict(domain) if isinstance(domain, Mapping) else resolve_domain(domain)
        self.region = region
        self.stock = stock
        self._world: World | None = None
        self._episode: Episode | None = None
        options.setdefault("control_freq", CONTROL_RATE)
        options.setdefault("hard_reset", False)
        options.setdefault("renderer", "mujoco")
        noise = {"magnitude": self.task.size.joint_noise, "type": "gaussian"}
        options.setdefault("initialization_noise", noise)
        super().__init__(robots=robots, **options)

    def _load_model(self) -> None:
        super()._load_model()
        robot = self.robots[0].robot_model
        robot.set_base_xpos(robot.base_xpos_offset["table"](TABLE_SIZE[0]))
        self.robots[0].init_qpos = np.array(self.task.size.arm)
        arena = TableArena(table_full_size=TABLE_SIZE, table_offset=(0, 0, TABLE_HEIGHT))
        arena.set_origin([0, 0, 0])
        self.model = ManipulationTask(mujoco_arena=arena, mujoco_robots=[robot], mujoco_objects=[])
        add_objects(self.model.root, self.task)
        apply_domain(self.model.root, self.task, self.domain)

    def _reset_internal(self) -> None:
        super()._reset_internal()
        self._world = World.around(self.task, self.domain, self.sim.model._model)
        if not self.deterministic_reset:
            placed = self._world.place(self.task.sample(self.region, self.rng))
            # The arm's joints and fingers were set by robosuite; the rest is ours.
            self.sim.data.qpos[9:] = placed[9:]
            self.sim.forward()
        self._episode = None

    def step(self, action: Array) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """One control step; by our controller unless ``stock``."""
        if self.stock:
            result: tuple[dict[str, Any], float, bool, dict[str, Any]] = super().step(action)
            return result
        if self.done:
            raise ValueError("executing action in terminated episode")
        assert self._world is not None
        if self._episode is None:
            self._episode = Episode.adopt(self._world, self.sim.data._data)
        self._episode.step(action)
        self.timestep += 1
        self.cur_time += self.control_timestep
        reward, done, info = self._post_action(action)
        return self._get_observations(force_update=True), reward, done, info

    def reset_to_state(self, state: Array) -> None:
        """Put the simulator into a recorded state."""
        self.sim.set_state_from_flattened(state)
        self.sim.forward()
        self._episode = None

    @property
    def action_dim(self) -> int:
        """4 or 7, by size."""
        return int(self._action_dim) if self.stock else self.task.size.action_dim

    @property
    def action_spec(self) -> tuple[Array, Array]:
        """All components lie in [-1, 1]."""
        return -np.ones(self.action_dim), np.ones(self.action_dim)

    def reward(self, action: Array | None = None) -> float:
        """One while the task is solved."""
        return float(self._check_success())

    def criteria(self) -> dict[str, bool]:
        """Every criterion of the task in the present state."""
        assert self._world is not None
        return self.task.criteria(self._world, self.sim.data._data)

    def _check_success(self) -> bool:
        return self.criteria()[self.task.success]

    def _check_robot_configuration(self, robots: str | list[str]) -> None:
        names = [robots] if isinstance(robots, str) else list(robots)
        if names != ["Panda"]:
            raise ValueError(f"the tasks are made for one Panda, not for {names}")


for _name, _task in TASKS.items():
    # robosuite's metaclass registers every class that is made, here as BeaconStack and so on.
    new_class(f"Beacon{_task.title}", (BeaconEnv,), {}, partial(dict.update, task_name=_name))
