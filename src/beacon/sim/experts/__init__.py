"""Scripted experts."""

from __future__ import annotations

import numpy as np

from beacon.errors import UserError
from beacon.registry import Registry
from beacon.sim.addresses import load_attribute
from beacon.sim.experts.base import Demonstrator, Expert
from beacon.sim.simulation import SimulatedEpisode
from beacon.sim.tasks.base import Task

# Experts of other packages, by name; those that come with a task are named by its class.
EXPERTS: Registry[type[Demonstrator]] = Registry("expert", "beacon.experts")

__all__ = ["EXPERTS", "Demonstrator", "Expert", "find_expert", "make_expert"]


def find_expert(task: Task, name: str | None = None) -> type[Demonstrator]:
    """The class of an expert for a task.

    Args:
        task: whose class says its expert in ``Task.expert``.
        name: another one: a registered name, or module:Class.
    """
    name = name or task.expert
    if name is None:
        raise UserError(
            f"there is no scripted expert for '{task.name}'; set 'expert = \"module:Class\"' on the task"
        )
    if name in EXPERTS:
        return EXPERTS[name]
    if ":" not in name:
        known = ", ".join(EXPERTS)
        raise UserError(
            f"there is no expert '{name}'; name module:Class" + (f", or one of {known}" if known else "")
        )
    cls = load_attribute(name, f"the expert of {task.name}")
    if not (isinstance(cls, type) and issubclass(cls, Demonstrator)):
        raise UserError(f"the expert '{name}' is not a subclass of beacon.sim.experts.Expert")
    return cls


def make_expert(
    episode: SimulatedEpisode, rng: np.random.Generator, noise: float = 0.05, name: str | None = None
) -> Demonstrator:
    """The expert for an episode's task.

    Args:
        episode: in which it acts.
        rng: its random numbers.
        noise: standard deviation added to actions.
        name: of another expert than the task's own, as for `find_expert`.
    """
    return find_expert(episode.world.task, name)(episode, rng, noise)
