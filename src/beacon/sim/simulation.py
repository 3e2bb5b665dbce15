"""What a simulated world and an episode in it offer, whichever simulator is behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from beacon.sim.addresses import load_attribute
from beacon.sim.arrays import Array
from beacon.sim.domains import Domain
from beacon.sim.rendering import IMAGE_SIZE
from beacon.sim.tasks import Task, make_task
from beacon.sim.world import InitialState


class SimulatedWorld(Protocol):
    """A task in a domain; episodes share it."""

    @property
    def task(self) -> Task:
        """At its size."""

    @property
    def domain(self) -> Domain:
        """How it looks, moves and is sensed."""

    @property
    def image_size(self) -> int:
        """Height and width of pictures."""

    @property
    def control_rate(self) -> int:
        """Control steps a second."""

    @property
    def image_key(self) -> str:
        """What observations call the picture."""

    @property
    def readings(self) -> tuple[str, ...]:
        """What else they have."""

    @property
    def renderer(self) -> Any:
        """Draws what `posed` gives, (H, W, 3) uint8."""

    def episode(self) -> SimulatedEpisode:
        """A new episode, to be reset before anything else."""

    def initial_state(self, region: str, seed: int) -> InitialState:
        """The start that belongs to a seed: the same in every domain, on every machine."""

    def posed(self, states: Sequence[Array]) -> Iterator[Any]:
        """The simulator in each of an episode's recorded states, ready to be drawn."""

    def close(self) -> None:
        """Free the renderer, if there is one."""


class SimulatedEpisode(Protocol):
    """One run of a world."""

    steps: int  # control steps taken

    @property
    def world(self) -> SimulatedWorld:
        """Where it runs."""

    def reset(self, initial: InitialState) -> None:
        """Start again from an initial state."""

    def step(self, action: Array) -> None:
        """One control step."""

    def criteria(self) -> Mapping[str, float]:
        """The task's criteria now: true or false, or a measure."""

    def state(self) -> Array:
        """The flattened state, time first."""

    def observe(self, image: bool = True) -> dict[str, Array]:
        """What the policy sees; call once a control step (noise advances)."""


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
