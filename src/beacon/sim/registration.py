"""Telling Gymnasium about the environments, without importing anything heavy."""

from __future__ import annotations

TITLES = {"lift": "Lift", "stack": "Stack", "mug-cleanup": "MugCleanup", "threading": "Threading"}


def register() -> None:
    """Make ``beacon/Stack-v0`` and the others known to Gymnasium; calling it again does no harm."""
    import gymnasium

    for task, title in TITLES.items():
        name = f"beacon/{title}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point="beacon.sim.environment:ManipulationEnvironment", kwargs={"task": task}
            )
