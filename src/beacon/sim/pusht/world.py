"""gym-pusht's environment as a world with episodes that run in it side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.domains import SOURCE, Domain, Physics, resolve_domain
from beacon.sim.pusht.task import COVERAGE, SIDE, SUCCESS, PushT
from beacon.sim.sensors import Sensors
from beacon.sim.simulation import InitialState, SimulatedEpisode, SimulatedWorld
from beacon.sim.tasks import Placement, make_task

PICTURE, POSITION = "pixels", "agent_pos"  # as the package calls what it observes
PICTURE_SIZE = 96
SUCCESS_COVERAGE = 0.95
BLOCK = "block"


def make_environment(picture_size: int = PICTURE_SIZE) -> Any:
    """The package's environment.

    Args:
        picture_size: pixels of its pictures along either side.
    """
    # pygame greets on standard output when it is imported, which would spoil --json.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        from gym_pusht.envs.pusht import PushTEnv
    except ImportError:
        raise UserError("the task pusht needs gym-pusht: pip install 'beacon-cotraining[pusht]'") from None
    return PushTEnv(observation_width=picture_size, observation_height=picture_size)


def restore(environment: Any, state: Sequence[float] | Array) -> None:
    """Put the environment into a state: pusher x, y, block x, y, angle.

    The angle comes before the position: turning the block moves its origin, because it turns about its centre
    of mass. The package's own reset does the reverse, so a recorded state would not come back.

    Args:
        environment: the package's; it forgets everything else.
        state: positions in pixels, the angle in radians.
    """
    goal = environment.goal_pose
    environment._setup()
    environment.goal_pose = goal
    x, y, block_x, block_y, angle = (float(value) for value in state)
    environment.agent.position = (x, y)
    environment.block.angle = angle
    environment.block.position = (block_x, block_y)
    for body in (environment.agent, environment.block):
        environment.space.reindex_shapes_for_body(body)


def read_state(environment: Any) -> tuple[float, ...]:
    """The inverse of `restore`."""
    agent, block = environment.agent, environment.block
    return (*map(float, agent.position), *map(float, block.position), float(block.angle))


class PushTWorld(SimulatedWorld):
    """The board with its goal."""

    task: PushT
    control_rate = 10
    image_key = PICTURE
    readings = (POSITION,)

    def __init__(
        self,
        task: str | PushT = "pusht",
        domain: str | Path | Domain = "source",
        size: str = "full",
        image_size: int = PICTURE_SIZE,
    ) -> None:
        made = make_task(task, size) if isinstance(task, str) else task
        if not isinstance(made, PushT):
            raise UserError(f"{made.name} is not a task of gym-pusht")
        self.task, self.domain, self.image_size = made, _check_domain(resolve_domain(domain)), image_size
        self._environment = self.make_environment()  # for starts and pictures

    def make_environment(self) -> Any:
        """An environment with the task's goal, for one episode."""
        environment = make_environment(self.image_size)
        environment._setup()
        environment.goal_pose = np.array(self.task.goal)
        return environment

    def episode(self) -> PushTEpisode:
        """A new episode."""
        return PushTEpisode(self)

    def initial_state(self, region: str, seed: int) -> InitialState:
        """What the package draws at a reset with this seed, as the state that comes of it.

        Args:
            region: only "train", the whole board.
            seed: of the draw.
        """
        if region != "train":
            raise UserError(f"{self.task.name} has one region, train; not '{region}'")
        self._environment.reset(seed=seed)
        state = read_state(self._environment)
        return InitialState(state, seed, {BLOCK: Placement(*state[2:5])})

    @property
    def renderer(self) -> Callable[[Any], Array]:
        """Draws an environment, (H, W, 3) uint8."""
        return self._draw

    def _draw(self, environment: Any) -> Array:
        picture = environment._get_img(environment._draw(), self.image_size, self.image_size)
        return np.ascontiguousarray(picture)

    def posed(self, states: Sequence[Array]) -> Iterator[Any]:
        """An environment in each of an episode's recorded states, ready to be drawn."""
        environment = self.make_environment()
        for state in states:
            restore(environment, state[1:6])
            yield environment

    def start_of(self, state: Array) -> tuple[float, ...]:
        """All of a recorded state but the time."""
        return tuple(float(value) for value in state[1:6])

    @property
    def state_size(self) -> int:
        """Time, pusher x, y, block x, y, angle."""
        return 6

    def environment(self, region: str) -> dict[str, Any]:
        """The package's environment."""
        return {
            "env_name": "gym_pusht/PushT-v0",
            "env_version": version("gym-pusht"),
            "type": 2,
            "env_kwargs": {
                "domain": self.domain.as_dict(),
                "region": region,
                "control_freq": self.control_rate,
            },
        }


class PushTEpisode(SimulatedEpisode):
    """One run of the environment."""

    def __init__(self, world: PushTWorld) -> None:
        self._world = world
        self.environment = world.make_environment()
        self.steps = 0

    @property
    def world(self) -> PushTWorld:
        """Where it runs."""
        return self._world

    def reset(self, initial: InitialState) -> None:
        """Start again from an initial state."""
        restore(self.environment, initial.qpos)
        self.initial, self.steps = initial, 0
        self.sensors = Sensors(self.world.domain, initial.seed)
        # A late action leaves the pusher where it is.
        here = np.array(initial.qpos[:2])
        self._waiting: deque[Array] = deque([here] * self.world.domain.physics.action_delay)

    def step(self, action: Array) -> None:
        """One control step (100 ms) towards a position in pixels."""
        self._waiting.append(np.clip(np.asarray(action, dtype=np.float64), 0.0, SIDE))
        self.environment.step(self._waiting.popleft())
        self.steps += 1

    def criteria(self) -> Mapping[str, float]:
        """The share of the goal that the block covers, and whether it is enough."""
        coverage = float(self.environment._get_coverage())
        return {SUCCESS: coverage > SUCCESS_COVERAGE, COVERAGE: coverage}

    def state(self) -> Array:
        """Time in seconds, pusher x, y, block x, y, angle."""
        return np.array([self.steps / self.world.control_rate, *read_state(self.environment)])

    def observe(self, image: bool = True, cameras: Sequence[str] = ()) -> dict[str, Array]:
        """What the policy sees, in the package's names."""
        observation = {POSITION: np.array(self.environment.agent.position, dtype=np.float32)}
        if image:
            picture = self.world.renderer(self.environment)
            observation[PICTURE] = self.sensors.picture(picture, self.steps)
        return observation


def _check_domain(domain: Domain) -> Domain:
    """A camera's response and late actions can be had here; tables and robots cannot."""
    late = Physics(action_delay=domain.physics.action_delay)
    if (domain.look, domain.view, domain.physics, domain.sensing) != (
        SOURCE.look,
        SOURCE.view,
        late,
        SOURCE.sensing,
    ):
        raise UserError(
            f"domain '{domain.name}': pusht has no table and no arm; take source, or a domain file that "
            "changes camera and physics.action_delay alone"
        )
    return domain
