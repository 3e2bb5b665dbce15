"""The tasks. ``make_task("stack", "small")`` gives one."""

from __future__ import annotations

from importlib import import_module

from beacon.errors import UserError
from beacon.sim.tasks.base import SIZES, Camera, Placement, Size, Subtask, Task

TASKS = {
    "lift": "beacon.sim.tasks.lift:Lift",
    "stack": "beacon.sim.tasks.stack:Stack",
    "mug-cleanup": "beacon.sim.tasks.mug_cleanup:MugCleanup",
    "threading": "beacon.sim.tasks.threading:Threading",
}

__all__ = ["SIZES", "TASKS", "Camera", "Placement", "Size", "Subtask", "Task", "make_task"]


def make_task(name: str, size: str = "full") -> Task:
    """A task by name; ``module:Class`` names somebody's own subclass of :class:`Task`."""
    home = TASKS.get(name, name)
    module, _, attribute = home.partition(":")
    if not attribute:
        raise UserError(
            f"there is no task '{name}'; take one of {', '.join(TASKS)}, or module:Class of your own task"
        )
    try:
        task = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"cannot load the task '{name}': {error}") from error
    made: Task = task(size)
    return made
