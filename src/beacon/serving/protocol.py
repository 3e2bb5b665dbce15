"""What server and clients say to each other, beyond openpi's one observation in, one chunk of actions out.

Control keys of a message, beside the observation's:

reset     true: forget the observation history and start the random numbers again
seed      with ``reset``: of the random numbers; a list gives one to every row of a batch
history   true: arrays have a leading time axis, oldest step first; the server's own history is not used
rows      a list of row numbers: arrays are (B, T, ...), row i has the random numbers of seed i
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beacon import __version__
from beacon.errors import UserError
from beacon.plain import to_plain
from beacon.policy.trained import TrainedPolicy
from beacon.serving.options import LARGEST_SEED, Limits

PROTOCOL = 1
RESET, SEED, HISTORY, ROWS = CONTROL = ("reset", "seed", "history", "rows")


@dataclass(frozen=True)
class Request:
    """A message of a client, checked."""

    observation: dict[str, Any]  # without control keys; empty: only a reset
    reset: bool = False
    seeds: tuple[int, ...] | None = None
    history: bool = False
    rows: tuple[int, ...] | None = None


def read_request(message: Any, limits: Limits) -> Request:
    """A decoded message as a request; what is wrong with it is a UserError of one line."""
    if not isinstance(message, Mapping):
        raise UserError(f"a map of observations is expected, not {type(message).__name__}")
    if wrong := [key for key in message if not isinstance(key, str)]:
        raise UserError(f"keys are text, not {wrong[0]!r:.40}")
    reset, history = _flag(message, RESET), _flag(message, HISTORY)
    seeds = None if message.get(SEED) is None else _integers(SEED, message[SEED], 100_000)
    rows = None if message.get(ROWS) is None else _integers(ROWS, message[ROWS], limits.rows)
    if seeds is not None and not reset:
        raise UserError("'seed' comes with 'reset': true")
    if history and rows is not None:
        raise UserError("say 'history' for (T, ...) or 'rows' for (B, T, ...), not both")
    observation = {key: value for key, value in message.items() if key not in CONTROL}
    for key, value in observation.items():
        if isinstance(value, np.ndarray) and value.ndim >= 3 and max(value.shape[-3:]) > limits.image_side:
            raise UserError(f"{key}: shape {value.shape}; sides of up to {limits.image_side} are allowed")
        if history and isinstance(value, np.ndarray) and value.ndim and len(value) > limits.history:
            raise UserError(f"{key}: a history of {len(value)} steps; up to {limits.history} are allowed")
    return Request(observation, reset, seeds, history, rows)


def describe_policy(policy: TrainedPolicy, *, seed: int, limits: Limits) -> dict[str, Any]:
    """The metadata that every client is sent first."""
    spec, deployment = policy.spec, policy.deployment
    if taken := sorted(set(CONTROL) & set(policy.observation_keys)):
        raise UserError(
            f"the policy has an observation called '{taken[0]}', which is a control key of the protocol; "
            f"train it with --rename {taken[0]}=OTHER"
        )
    observation = {}
    for name in policy.observation_keys:
        image = name in spec.cameras
        observation[name] = {
            "shape": list(spec.cameras[name]) if image else [spec.proprio[name]],
            "dtype": "uint8" if image else "float32",
            "kind": "image" if image else "proprioception",
            **({"fit": deployment.image_fit} if image else {}),  # of pictures of another shape
            "also_called": deployment.data_names(name)[1:],
        }
    return {
        "server": "beacon",
        "version": __version__,
        "protocol": PROTOCOL,
        "policy_sha256": fingerprint(policy),
        "observation": observation,
        "action_dim": spec.action_dim,
        "action_names": list(policy.action_names),
        "action_horizon": policy.horizon,
        "action_steps": policy.action_steps,
        "obs_steps": policy.obs_steps,
        "history": "consecutive control steps, oldest first; kept per connection unless 'history' is sent",
        "control_rate": deployment.control_rate,
        "control_keys": list(CONTROL),
        "seed": seed,
        "limits": to_plain(limits),
    }


def fingerprint(policy: TrainedPolicy) -> str:
    """SHA-256 of all that decides what a policy does: shapes, configuration, normalisation, parameters."""
    normalization = policy.normalization
    scales = {"actions": normalization.actions, **normalization.proprio}
    plain = {
        "spec": policy.spec.to_dict(),
        "config": to_plain(policy.policy.config),
        "normalization": {name: [a.offset.tolist(), a.scale.tolist()] for name, a in scales.items()},
    }
    if policy.deployment.image_fit != "stretch":
        plain["image_fit"] = policy.deployment.image_fit
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, tensor in sorted(policy.policy.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _flag(message: Mapping[str, Any], name: str) -> bool:
    value = message.get(name, False)
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"'{name}' is true or false, not {type(value).__name__}")
    return bool(value)


def _integers(name: str, value: Any, most: int) -> tuple[int, ...]:
    items = value if isinstance(value, list) else value.tolist() if isinstance(value, np.ndarray) else [value]
    if not isinstance(items, list) or not 1 <= len(items) <= most:
        raise UserError(f"'{name}' is a whole number or a list of up to {most}")
    numbers = [item.item() if isinstance(item, np.integer) else item for item in items]
    if not all(type(number) is int and 0 <= number <= LARGEST_SEED for number in numbers):
        raise UserError(f"'{name}' has whole numbers from 0 to {LARGEST_SEED}")
    return tuple(numbers)
