"""Telling Gymnasium about the environments, without importing any task."""

from __future__ import annotations

from importlib.metadata import entry_points

from beacon.sim.tasks import BUILT_IN_TASKS, TASKS
from beacon.sim.tasks.base import title_of


def environment_ids() -> dict[str, str]:
    """Gymnasium's name of every task, of other packages as well, and the task's own."""
    names = [*BUILT_IN_TASKS, *(entry.name for entry in entry_points(group=str(TASKS.group)))]
    return {f"beacon/{title_of(name)}-v0": name for name in names}


def register() -> None:
    """Make ``beacon/Stack-v0`` and the others known to Gymnasium; calling it again does no harm."""
    import gymnasium

    for environment, task in environment_ids().items():
        if environment not in gymnasium.registry:
            gymnasium.register(
                environment,
                entry_point="beacon.sim.environment:ManipulationEnvironment",
                kwargs={"task": task},
            )
