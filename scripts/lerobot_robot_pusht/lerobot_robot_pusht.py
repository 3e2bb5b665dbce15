"""The simulator of PushT as a robot of LeRobot: two axes and a camera, `--robot.type=pusht`.

lerobot-rollout drives robots, not environments; with this one it can be tried without hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lerobot.robots import Robot, RobotConfig

AXES = ("x.pos", "y.pos")


@RobotConfig.register_subclass("pusht")
@dataclass
class PushtRobotConfig(RobotConfig):
    """Its camera."""

    image_size: int = 96
    seed: int = 0


class PushtRobot(Robot):
    """Goes where it is told, in pixels of a board of 512 x 512."""

    config_class = PushtRobotConfig
    name = "pusht"

    def __init__(self, config: PushtRobotConfig) -> None:
        """Prepare.

        Args:
            config: size of the camera's pictures, seed of the start.
        """
        super().__init__(config)
        self.config = config
        self._env: Any = None
        self._seen: dict[str, Any] = {}
        self.actions = 0

    @property
    def observation_features(self) -> dict[str, Any]:
        """Positions of the axes, and a picture."""
        size = self.config.image_size
        return {**dict.fromkeys(AXES, float), "front": (size, size, 3)}

    @property
    def action_features(self) -> dict[str, Any]:
        """Where to go."""
        return dict.fromkeys(AXES, float)

    @property
    def is_connected(self) -> bool:
        """Whether the simulator runs."""
        return self._env is not None

    @property
    def is_calibrated(self) -> bool:
        """A simulator needs none."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Start the simulator."""
        import gym_pusht  # noqa: F401 - registers the environment
        import gymnasium

        size = self.config.image_size
        self._env = gymnasium.make(
            "gym_pusht/PushT-v0",
            obs_type="pixels_agent_pos",
            observation_width=size,
            observation_height=size,
        )
        self._seen, _ = self._env.reset(seed=self.config.seed)

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, Any]:
        """What is seen now."""
        positions = dict(zip(AXES, map(float, self._seen["agent_pos"]), strict=True))
        return {**positions, "front": self._seen["pixels"]}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Go there for one step."""
        self._seen, _, ended, cut, _ = self._env.step([float(action[axis]) for axis in AXES])
        self.actions += 1
        if ended or cut:
            self._seen, _ = self._env.reset()
        return action

    def disconnect(self) -> None:
        """Stop, and say how much was done."""
        print(f"PushT, driven as a robot: {self.actions} actions, now at {self._seen['agent_pos']}")
        self._env.close()
        self._env = None
