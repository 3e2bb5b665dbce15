"""Scripted experts, one a task."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from beacon.errors import UserError
from beacon.sim.experts.base import Expert
from beacon.sim.world import Episode

EXPERTS = {
    "lift": "beacon.sim.experts.stack:LiftExpert",
    "stack": "beacon.sim.experts.stack:StackExpert",
    "mug-cleanup": "beacon.sim.experts.mug_cleanup:MugCleanupExpert",
    "threading": "beacon.sim.experts.threading:ThreadingExpert",
}

__all__ = ["EXPERTS", "Expert", "make_expert"]


def make_expert(episode: Episode, rng: np.random.Generator, noise: float = 0.05) -> Expert:
    """The expert for an episode's task; a task class of one's own names its expert in ``Task.expert``."""
    task = episode.world.task
    home = EXPERTS.get(task.name) or getattr(task, "expert", None)
    if home is None:
        raise UserError(
            f"there is no scripted expert for '{task.name}'; set 'expert = \"module:Class\"' on the task"
        )
    module, _, name = str(home).partition(":")
    expert: Expert = getattr(import_module(module), name)(episode, rng, noise)
    return expert
