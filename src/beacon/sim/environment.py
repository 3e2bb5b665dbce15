"""The tasks for Gymnasium: ``gymnasium.make("beacon/Stack-v0", domain="texture", region="ood")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.domains import Domain
from beacon.sim.regions import REGIONS
from beacon.sim.rendering import IMAGE_SIZE
from beacon.sim.rollout import stack_frames
from beacon.sim.scene import CAMERA
from beacon.sim.simulation import make_world, picture_keys
from beacon.sim.world import CONTROL_RATE

Observation = dict[str, Array]


class ManipulationEnvironment(gymnasium.Env[Observation, Array]):
    """One task in one domain. ``info`` has the criteria, exact object poses and the simulator's state."""

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own convention
        "render_modes": ["rgb_array"],
        "render_fps": CONTROL_RATE,
    }

    def __init__(
        self,
        task: str,
        domain: str | Domain = "source",
        size: str = "small",
        region: str = "train",
        image_size: int = IMAGE_SIZE,
        render_mode: str | None = None,
        cameras: Sequence[str] = (CAMERA,),
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode '{render_mode}' is not known; take 'rgb_array'")
        if region not in REGIONS:
            raise UserError(f"there is no region '{region}'; take one of {', '.join(REGIONS)}")
        self.world = make_world(task, domain, size, image_size)
        self._cameras = picture_keys(self.world, cameras)
        self.region = region
        self.render_mode = render_mode
        self._episode = self.world.episode()
        self._criteria: list[Mapping[str, float]] = []
        readings = {"robot0_eef_pos": (3, 3.0), "robot0_eef_quat": (4, 1.0), "robot0_gripper_qpos": (2, 0.1)}
        self.observation_space: spaces.Dict = spaces.Dict(  # type: ignore[assignment]
            {
                **{key: spaces.Box(0, 255, (image_size, image_size, 3), np.uint8) for key in self._cameras},
                **{key: spaces.Box(-b, b, (n,), np.float32) for key, (n, b) in readings.items()},
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (self.world.task.size.action_dim,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new start; ``options={"initial_state": ...}`` takes one of :meth:`World.initial_state`."""
        super().reset(seed=seed)
        initial = (options or {}).get("initial_state")
        if initial is None:
            initial = self.world.initial_state(self.region, int(self.np_random.integers(2**62)))
        self._episode.reset(initial)
        self._criteria = []
        return self._episode.observe(cameras=self._cameras), self._info(self._episode.criteria())

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One control step of 50 ms; the reward is one in frames where the task is solved."""
        self._episode.step(action)
        criteria = self._episode.criteria()
        self._criteria.append(criteria)
        task = self.world.task
        frames = stack_frames(self._criteria)
        over = self._episode.steps >= task.size.horizon
        info = self._info(criteria)
        settled = task.settled(frames)
        if settled or over:
            info["outcomes"] = task.outcomes(frames)
        reward = float(criteria[task.success])
        return self._episode.observe(cameras=self._cameras), reward, settled, over and not settled, info

    def render(self) -> Array | None:
        """The camera's picture, (H, W, 3) uint8, without sensor noise."""
        return self.world.renderer(self._episode.data) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Free the renderer."""
        self.world.close()

    def _info(self, criteria: Mapping[str, float]) -> dict[str, Any]:
        return {
            "criteria": dict(criteria),
            "success": criteria[self.world.task.success],
            "objects": self._episode.privileged(),
            "state": self._episode.state(),
        }
