"""Small facts in robomimic HDF5: names, masks, attributes, the environment's description."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import h5py
import numpy as np

from beacon.data.errors import printable
from beacon.data.formats import hdf5_safety as safety
from beacon.data.formats.base import Problem
from beacon.errors import UserError

ACTION_NAMES = "action_names"  # attribute of `data`: a JSON list that our writer notes
LARGEST_ATTRIBUTE = 1 << 16  # bytes; `model_file` (a whole XML scene) is left out by name


def episode_order(name: str) -> tuple[bool, int, str]:
    """Sorts demo_2 before demo_10, and names of another kind after them."""
    match = re.fullmatch(r"demo_([0-9]{1,18})", name)
    return (match is None, int(match[1]) if match else 0, name)


def read_masks(file: h5py.File) -> dict[str, list[str]]:
    """The named subsets ``mask/<key>``."""
    group = safety.follow(file, "mask")
    if not isinstance(group, h5py.Group):
        return {}
    masks = {}
    for key in text_keys(group):
        item = safety.follow(group, key)
        if isinstance(item, h5py.Dataset):
            names = safety.read_whole(item, f"mask/{key}").reshape(-1).tolist()
            masks[key] = [n.decode(errors="replace") if isinstance(n, bytes) else str(n) for n in names]
    return masks


def parse_env_args(value: Any) -> tuple[dict[str, Any], str | None]:
    """The environment's description, and what is wrong with it."""
    lost = "the environment cannot be rebuilt from the file"
    if value is None:
        return {}, f"no attribute 'env_args': {lost}"
    try:
        env_args = json.loads(value)
    except (ValueError, TypeError, RecursionError) as error:
        return {}, f"attribute 'env_args' is not JSON ({printable(str(error))}): {lost}"
    if not isinstance(env_args, dict):
        return {}, f"attribute 'env_args' is JSON of type {type(env_args).__name__}, not an object"
    if not isinstance(env_args.get("env_kwargs", {}), dict):
        return env_args, f"attribute 'env_args': 'env_kwargs' is not an object; {lost}"
    return env_args, None


def read_action_names(value: Any, width: int) -> list[str] | None:
    """The names that were noted for the dimensions of actions; None where they are none, or too few."""
    if not isinstance(value, str | bytes) or len(value) > LARGEST_ATTRIBUTE:
        return None
    try:
        names = json.loads(value)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(names, list) and len(names) == width and all(isinstance(name, str) for name in names)
    return names if fits else None


def control_rate(env_args: dict[str, Any]) -> float | None:
    """Control steps a second, as the environment's description says it; None if it does not."""
    kwargs = env_args.get("env_kwargs")
    rate = kwargs.get("control_freq") if isinstance(kwargs, dict) else None
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        return None
    return float(rate) if math.isfinite(rate) and rate > 0 else None


def check_count(said: Any, length: int, episode: str) -> list[Problem]:
    """Whether ``num_samples`` is the number of actions."""
    if said is None:
        return [Problem("warning", "no attribute 'num_samples': robomimic needs it", episode)]
    if isinstance(said, bool) or not isinstance(said, int):
        return [
            Problem("error", f"attribute 'num_samples' is not a whole number but {short_text(said)}", episode)
        ]
    if said != length:
        return [
            Problem("error", f"attribute 'num_samples' is {said} but there are {length} actions", episode)
        ]
    return []


def text_keys(group: h5py.Group) -> list[str]:
    """Names of what is in a group; h5py gives bytes where a name is not UTF-8."""
    names = []
    for name in group:
        if isinstance(name, bytes) or not _encodable(name):
            shown = name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
            raise UserError(
                f"'{printable(shown)}' in '{printable(group.name)}' is not a UTF-8 name; rename it"
            )
        names.append(name)
    return names


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def short_text(value: Any) -> str:
    """A value for a message."""
    text = printable(repr(value))
    return text if len(text) < 40 else text[:37] + "..."


def plain_value(value: Any) -> Any:
    """An attribute as int, float, bool, str or list; None when it is too large or of another kind."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value if len(value) <= LARGEST_ATTRIBUTE else None
    if isinstance(value, np.ndarray | np.generic):
        if value.nbytes > LARGEST_ATTRIBUTE or value.dtype.kind not in "biufSUO":
            return None
        plain = value.tolist()
        if value.dtype.kind in "SO":
            plain = json.loads(
                json.dumps(
                    plain, default=lambda v: v.decode(errors="replace") if isinstance(v, bytes) else str(v)
                )
            )
        return plain
    return value if isinstance(value, bool | int | float) else None
