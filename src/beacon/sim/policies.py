"""Policies as evaluation sees them, and how a command line names one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from beacon.errors import UserError
from beacon.sim.addresses import load_attribute
from beacon.sim.arrays import Array
from beacon.sim.rendering import IMAGE_SIZE


@runtime_checkable
class Policy(Protocol):
    """Anything that maps observation histories to action chunks."""

    @property
    def obs_steps(self) -> int:
        """How many observations a history has."""

    @property
    def action_steps(self) -> int:
        """How many actions come back."""

    @property
    def observation_keys(self) -> Sequence[str]:
        """What an observation must have."""

    def act(self, observation: Mapping[str, Any]) -> Array:
        """Histories (B, obs_steps, ...) to actions (B, action_steps, A)."""

    def reset(self, seed: Any) -> None:
        """Start random numbers again from a seed, or from one seed a row if ``act`` takes ``rows``."""


# Policies that are named by an address: what comes before "://" -> the class that is given the address.
ADDRESSES = {"ws": "beacon.serving.remote:RemotePolicy", "wss": "beacon.serving.remote:RemotePolicy"}


def load(spec: str | Path, device: str = "cpu") -> Policy:
    """A run folder, the address of a policy server, or ``module:function`` that returns a policy.

    Args:
        spec: which.
        device: where a run folder's policy computes; ``auto`` is a GPU when there is one.
    """
    text = str(spec)
    if (scheme := text.partition("://")[0]) in ADDRESSES and scheme != text:
        return _load_address(text, ADDRESSES[scheme])
    if Path(text).exists():
        from beacon.devices import choose_device
        from beacon.policy import load_policy

        loaded: Policy = load_policy(Path(text), device=choose_device(device))
        return loaded
    if ":" not in text:
        raise UserError(f"there is no run folder {text}; give one, or module:function that returns a policy")
    made = load_attribute(text, "the policy")()
    missing = [
        name
        for name in ("obs_steps", "action_steps", "observation_keys", "act", "reset")
        if not hasattr(made, name)
    ]
    if missing:
        raise UserError(f"the policy '{text}' lacks {', '.join(missing)}")
    policy: Policy = made
    return policy


def _load_address(address: str, home: str) -> Policy:
    module, _, name = home.partition(":")
    try:
        remote: Policy = getattr(import_module(module), name)(address)
    except ImportError:
        raise UserError(
            f"{address}: needs websockets and msgpack: pip install 'beacon-cotraining[serve]'"
        ) from None
    return remote


def picture_size(policy: Policy) -> int:
    """Height and width of the pictures to draw for a policy, which resizes what it sees.

    What it was trained to see; never less than demonstrations usually have, because smaller pictures are
    made of these.
    """
    cameras: Mapping[str, Sequence[int]] = getattr(getattr(policy, "spec", None), "cameras", {})
    return max([IMAGE_SIZE, *(side for shape in cameras.values() for side in shape[:2])])


def keeps_rows(policy: Policy) -> bool:
    """Whether a policy has random numbers of its own for every row of a batch."""
    return "rows" in inspect.signature(policy.act).parameters


def start_batch(policy: Policy, seeds: Sequence[int], rows: Sequence[int]) -> None:
    """Reset a policy so that what it does on these rows does not depend on what it did before."""
    policy.reset(list(seeds) if keeps_rows(policy) else seeds[rows[0]])


def act_rows(policy: Policy, observation: Mapping[str, Array], rows: Sequence[int]) -> Array:
    """Ask for actions; a policy that keeps random numbers per row is told which rows these are."""
    if keeps_rows(policy):
        return np.asarray(policy.act(observation, rows=rows))  # type: ignore[call-arg]
    return np.asarray(policy.act(observation))


class RandomPolicy:
    """Uniform actions: the floor of every table."""

    obs_steps = 1
    action_steps = 8
    observation_keys: tuple[str, ...] = ("robot0_eef_pos",)

    def __init__(self, action_dim: int = 4) -> None:
        self.action_dim = action_dim
        self.reset(0)

    def reset(self, seed: int | Sequence[int] = 0) -> None:
        """One stream for all rows."""
        self._rng = np.random.default_rng(seed)

    def act(self, observation: Mapping[str, Array]) -> Array:
        """Actions (B, 8, A) in [-1, 1]."""
        batch = len(observation["robot0_eef_pos"])
        return self._rng.uniform(-1, 1, (batch, self.action_steps, self.action_dim)).astype(np.float32)


def random_small() -> RandomPolicy:
    """For ``--size small``."""
    return RandomPolicy(4)


def random_full() -> RandomPolicy:
    """For ``--size full``."""
    return RandomPolicy(7)
