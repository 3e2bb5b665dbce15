"""The tasks. ``make_task("stack", "small")`` gives one."""

from __future__ import annotations

from beacon.errors import UserError, meant
from beacon.registry import Registry
from beacon.sim.addresses import load_attribute
from beacon.sim.tasks.base import SIZES, Camera, Placement, Size, Subtask, Task

# Name and module of a task are all that is said of it outside of its class.
BUILT_IN_TASKS = {
    "lift": "beacon.sim.tasks.lift:Lift",
    "stack": "beacon.sim.tasks.stack:Stack",
    "mug-cleanup": "beacon.sim.tasks.mug_cleanup:MugCleanup",
    "threading": "beacon.sim.tasks.threading:Threading",
}
# Tasks of other simulators; what goes through all tasks of ours, such as robosuite's names, leaves them out.
OTHER_TASKS = {
    "pusht": "beacon.sim.pusht.task:PushT",
    "pusht-moved": "beacon.sim.pusht.task:PushTMovedGoal",
}
# Tasks of other simulators, called FAMILY/NAME: a function from NAME to the task's class.
TASK_FAMILIES = {"metaworld": "beacon.sim.metaworld.task:task_class"}
TASKS: Registry[type[Task]] = Registry("task", "beacon.tasks")
for _name, _address in BUILT_IN_TASKS.items():
    TASKS.register_lazily(_name, _address)

__all__ = [
    "BUILT_IN_TASKS",
    "OTHER_TASKS",
    "SIZES",
    "TASKS",
    "TASK_FAMILIES",
    "Camera",
    "Placement",
    "Size",
    "Subtask",
    "Task",
    "find_task",
    "known_task",
    "make_task",
]


def find_task(name: str) -> type[Task]:
    """A task's class by its registered name, by ``family/name`` as in ``metaworld/door-open-v3``, or by
    ``module:Class`` of somebody's own.
    """
    if name in TASKS:
        return TASKS[name]
    family, _, member = name.partition("/")
    if family in TASK_FAMILIES and member:
        made: type[Task] = load_attribute(TASK_FAMILIES[family], "the task")(member)
        return made
    if ":" not in name and name not in OTHER_TASKS:
        names = ", ".join([*TASKS, *OTHER_TASKS])
        raise UserError(
            f"there is no task '{name}'; {meant(name, [*TASKS, *OTHER_TASKS])}take one of {names}, "
            "metaworld/NAME, or module:Class of your own"
        )
    cls = load_attribute(OTHER_TASKS.get(name, name), "the task")
    if not (isinstance(cls, type) and issubclass(cls, Task)):
        raise UserError(f"the task '{name}' is not a subclass of beacon.sim.Task")
    return cls


def known_task(name: str) -> type[Task] | None:
    """The class of a registered task or of one of another simulator; None for other names."""
    known = name in TASKS or name in OTHER_TASKS or name.partition("/")[0] in TASK_FAMILIES
    return find_task(name) if known else None


def make_task(name: str, size: str = "full") -> Task:
    """A task at a size.

    Args:
        name: as for `find_task`.
        size: "small" or "full".
    """
    return find_task(name)(size)
