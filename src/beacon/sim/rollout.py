"""Running an episode and keeping what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.sensors import Sensors
from beacon.sim.simulation import InitialState, SimulatedEpisode, SimulatedWorld

Actor = Callable[[], "Array | None"]


@dataclass
class Recording:
    """An episode: states and readings before each action, criteria after it."""

    initial: InitialState
    actions: list[Array] = field(default_factory=list)
    states: list[Array] = field(default_factory=list)
    readings: list[dict[str, Array]] = field(default_factory=list)
    criteria: list[Mapping[str, float]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.actions)

    def frames(self) -> dict[str, Array]:
        """The criteria over time, (T,) each."""
        return stack_frames(self.criteria)

    def observations(self) -> dict[str, Array]:
        """The readings over time, without pictures."""
        return {key: np.stack([reading[key] for reading in self.readings]) for key in self.readings[0]}


def stack_frames(criteria: Sequence[Mapping[str, float]]) -> dict[str, Array]:
    """One array per criterion, boolean where it is true or false and not a measure."""
    first = criteria[0] if criteria else {}
    return {
        name: np.array([frame[name] for frame in criteria], dtype=float if isinstance(value, float) else bool)
        for name, value in first.items()
    }


def record(episode: SimulatedEpisode, initial: InitialState, make_actor: Callable[[], Actor]) -> Recording:
    """Run until the actor is done or the horizon is reached."""
    episode.reset(initial)
    actor = make_actor()
    recording = Recording(initial)
    for _ in range(episode.world.task.size.horizon):
        action = actor()
        if action is None:
            break
        recording.states.append(episode.state())
        recording.readings.append(episode.observe(image=False))
        recording.actions.append(np.asarray(action, dtype=np.float32))
        episode.step(recording.actions[-1])
        recording.criteria.append(episode.criteria())
    return recording


def pictures(world: SimulatedWorld, states: Sequence[Array], seed: int, key: str | None = None) -> Array:
    """What a camera saw in a sequence of states, (T, H, W, 3) uint8; as if looked at every step.

    Args:
        world: where it stands.
        states: of an episode, in order.
        seed: of the episode's sensor noise.
        key: which picture; None: the world's first.
    """
    key = key or world.image_key
    number = world.image_keys.index(key)
    sensors = Sensors(world.domain, seed)
    frames = np.empty((len(states), world.image_size, world.image_size, 3), dtype=np.uint8)
    for index, data in enumerate(world.posed(states)):
        frames[index] = sensors.picture(world.draw(data, key), index, number)
    return frames
