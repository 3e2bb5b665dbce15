"""Meta-World's environments as a world with episodes that run in it side by side."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.domains import Domain, resolve_domain
from beacon.sim.metaworld.look import CAMERA, apply_domain
from beacon.sim.metaworld.package import pristine_environment, twin
from beacon.sim.metaworld.task import MetaWorldTask, start_heights
from beacon.sim.rendering import IMAGE_SIZE, Renderer
from beacon.sim.sensors import Sensors
from beacon.sim.simulation import InitialState, MuJoCoWorld, SimulatedEpisode
from beacon.sim.tasks import make_task

FINGERS = slice(7, 9)  # of the joint positions, after the arm's seven


class MetaWorld(MuJoCoWorld):
    """One of the package's environments in a domain."""

    control_rate = 80
    task: MetaWorldTask

    def __init__(
        self,
        task: str | MetaWorldTask,
        domain: str | Path | Domain = "source",
        size: str = "full",
        image_size: int = IMAGE_SIZE,
    ) -> None:
        import mujoco

        made = make_task(task, size) if isinstance(task, str) else task
        assert isinstance(made, MetaWorldTask)
        self.task, self.domain = made, resolve_domain(domain)
        self.image_size, self.mujoco = image_size, mujoco
        self._pristine = pristine_environment(made.environment)
        self.model = copy.copy(self._pristine.model)
        apply_domain(self.model, made, self.domain)

    @cached_property
    def renderer(self) -> Renderer:
        """One for all episodes: where bodies are, the state says."""
        return Renderer(
            self.model,
            self.image_size,
            shadows=self.domain.look.shadows,
            camera=CAMERA,
            fixed_scene=False,
        )

    def make_environment(self) -> Any:
        """An environment in this domain, for one episode."""
        return twin(self._pristine, copy.copy(self.model))

    def episode(self) -> MetaWorldEpisode:
        """A new episode."""
        return MetaWorldEpisode(self)

    def initial_state(self, region: str, seed: int) -> InitialState:
        """What the package draws at a reset, drawn from the region."""
        rng = np.random.default_rng(seed)
        placements = self.task.sample(region, rng)
        heights = start_heights(self.task, rng)
        numbers = [(where.x, where.y, heights[part]) for part, where in placements.items()]
        return InitialState(tuple(np.concatenate(numbers).tolist()), seed, placements)

    def start_of(self, state: Array) -> tuple[float, ...]:
        """The drawn numbers, which stand at the end of a recorded state."""
        return tuple(state[-3 * len(self.task.size.regions) :].tolist())

    def posed(self, states: Sequence[Array]) -> Iterator[Any]:
        """MuJoCo's data in each of an episode's states."""
        episode = self.episode()
        if len(states):
            episode.reset(InitialState(self.start_of(np.asarray(states[0])), 0, {}))
        model, data = episode.environment.model, episode.data
        for state in states:
            data.qpos[:] = state[1 : 1 + model.nq]
            self.mujoco.mj_kinematics(model, data)
            self.mujoco.mj_camlight(model, data)
            yield data

    @property
    def state_size(self) -> int:
        """Time, positions, velocities, and what the reset drew."""
        return int(1 + self.model.nq + self.model.nv + 3 * len(self.task.size.regions))

    def environment(self, region: str) -> dict[str, Any]:
        """The package's name and version of it."""
        from importlib.metadata import version

        return {
            "env_name": self.task.environment,
            "env_version": version("metaworld"),
            "type": 2,
            "env_kwargs": {
                "size": self.task.size.name,
                "domain": self.domain.as_dict(),
                "region": region,
                "control_freq": self.control_rate,
                "camera_names": "agentview",
                "camera_heights": self.image_size,
                "camera_widths": self.image_size,
            },
        }


class MetaWorldEpisode(SimulatedEpisode):
    """One run of an environment of the package."""

    def __init__(self, world: MetaWorld) -> None:
        self._world = world
        self.environment = world.make_environment()
        self.data = self.environment.data

    @property
    def world(self) -> MetaWorld:
        """Where it runs."""
        return self._world

    def reset(self, initial: InitialState) -> None:
        """Start again, in an environment that remembers nothing."""
        self.initial = initial
        self.environment = self._world.make_environment()
        self.environment._last_rand_vec = np.asarray(initial.qpos, dtype=np.float64)
        observation, _ = self.environment.reset()
        self.data = self.environment.data
        self.full_observation = observation
        self.steps, self._success = 0, False
        self.sensors = Sensors(self._world.domain, initial.seed)
        idle = np.zeros(self._world.task.size.action_dim)
        self._waiting: deque[Array] = deque([idle] * self._world.domain.physics.action_delay)

    def step(self, action: Array) -> None:
        """One control step (12.5 ms)."""
        self._waiting.append(np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0))
        self.full_observation, _, _, _, told = self.environment.step(self._waiting.popleft())
        self._success = bool(told["success"])
        self.steps += 1

    def criteria(self) -> dict[str, bool]:
        """What the package said of the last step."""
        return {"success": self._success}

    def state(self) -> Array:
        """Time, positions, velocities, and what the reset drew."""
        data = self.data
        return np.concatenate([[data.time], data.qpos, data.qvel, self.initial.qpos])

    def observe(self, image: bool = True, cameras: Sequence[str] = ()) -> dict[str, Array]:
        """What the policy sees."""
        hand = self.data.body("hand")
        w, x, y, z = hand.xquat
        observation = self.sensors.read(
            position=hand.xpos.copy(),
            quaternion=np.array([x, y, z, w]),
            gripper=self.data.qpos[FINGERS].copy(),
        )
        if image:
            picture = self._world.renderer(self.data)
            observation["agentview_image"] = self.sensors.picture(picture, self.steps)
        return observation

    def privileged(self) -> dict[str, Array]:
        """Where the object is."""
        pose = np.eye(4)
        pose[:3, 3] = self.full_observation[4:7]
        return {"object": pose}
