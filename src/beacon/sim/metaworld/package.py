"""The package ``metaworld``, imported when one of its tasks is used."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

from beacon.errors import UserError


def environment_class(name: str) -> Any:
    """The class of one of its environments, by a name such as ``door-open-v3``."""
    environments = _load("metaworld.env_dict", "ALL_V3_ENVIRONMENTS")
    if name not in environments:
        raise UserError(f"Meta-World has no task '{name}'; take one of {', '.join(sorted(environments))}")
    return environments[name]


def expert_class(name: str) -> Any:
    """The class of the scripted policy that solves an environment."""
    policies = _load("metaworld.policies", "ENV_POLICY_MAP")
    if name not in policies:
        raise UserError(f"Meta-World has no scripted policy for '{name}'")
    return policies[name]


@cache
def pristine_environment(name: str) -> Any:
    """An environment as it is built, whose goal is seen; copy it, never step it."""
    environment = environment_class(name)()
    environment._set_task_called = True
    environment._freeze_rand_vec = True
    environment._partially_observable = False  # experts are told the goal
    environment.__dict__.pop("sawyer_observation_space", None)  # cached with the goal hidden
    return environment


def twin(environment: Any, model: Any) -> Any:
    """An environment of the same kind with a model and a state of its own.

    Args:
        environment: as built; nothing of it changes.
        model: MuJoCo's, which becomes the twin's own: Meta-World moves bodies of the model at every reset.
    """
    import mujoco

    other = object.__new__(type(environment))
    other.__dict__.update(environment.__dict__)
    other.model, other.data = model, mujoco.MjData(model)
    return other


def _load(module: str, attribute: str) -> Any:
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of gymnasium, about rendering
            return getattr(import_module(module), attribute)
    except ImportError:
        raise UserError(
            "Meta-World's tasks need the package metaworld: pip install 'beacon-cotraining[metaworld]'"
        ) from None
