"""Simulation: tasks, domains, experts, demonstrations, rollouts. The only place that imports robosuite.

Names load on first use. Importing the package makes the environments known to Gymnasium, as is its custom
since it has no plug-ins: ``import beacon.sim; gymnasium.make("beacon/Stack-v0")``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.sim.domains import DOMAINS, Domain, resolve_domain
    from beacon.sim.environment import ManipulationEnvironment
    from beacon.sim.evaluate import EvaluateConfig, compare, evaluate
    from beacon.sim.experts import EXPERTS, Expert, make_expert
    from beacon.sim.generate import GenerateConfig, GenerateReport, generate
    from beacon.sim.policies import Policy
    from beacon.sim.regions import REGIONS
    from beacon.sim.registration import register
    from beacon.sim.simulation import InitialState, make_world
    from beacon.sim.tasks import SIZES, TASKS, Task, make_task
    from beacon.sim.world import Episode, World

_HOMES = {
    "DOMAINS": "domains",
    "Domain": "domains",
    "resolve_domain": "domains",
    "ManipulationEnvironment": "environment",
    "register": "registration",
    "EvaluateConfig": "evaluate",
    "compare": "evaluate",
    "evaluate": "evaluate",
    "EXPERTS": "experts",
    "Expert": "experts",
    "make_expert": "experts",
    "GenerateConfig": "generate",
    "GenerateReport": "generate",
    "generate": "generate",
    "Policy": "policies",
    "REGIONS": "regions",
    "SIZES": "tasks",
    "TASKS": "tasks",
    "Task": "tasks",
    "make_task": "tasks",
    "Episode": "world",
    "InitialState": "simulation",
    "make_world": "simulation",
    "World": "world",
}

__all__ = [
    "DOMAINS",
    "EXPERTS",
    "REGIONS",
    "SIZES",
    "TASKS",
    "Domain",
    "Episode",
    "EvaluateConfig",
    "Expert",
    "GenerateConfig",
    "GenerateReport",
    "InitialState",
    "ManipulationEnvironment",
    "Policy",
    "Task",
    "World",
    "compare",
    "evaluate",
    "generate",
    "make_expert",
    "make_task",
    "make_world",
    "register",
    "resolve_domain",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.sim.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.sim' has no attribute {name!r}")


if find_spec("gymnasium") is not None:
    import_module("beacon.sim.registration").register()
