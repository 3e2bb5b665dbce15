"""Whether demonstrations ended well, as their dataset says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beacon.data.formats import open_dataset
from beacon.data.formats.base import DatasetReader
from beacon.errors import UserError

# Names of attributes and arrays that say it outright.
SUCCESS = ("success", "next.success", "is_success")
# Arrays that say it where at least one demonstration of the set has a number above 0 in them.
REWARDS = ("rewards", "next.reward", "reward")
DONES = ("dones", "next.done", "done")


def success_labels(
    path: Path, names: Sequence[str], attributes: Sequence[Mapping[str, Any]]
) -> list[bool | None]:
    """For every demonstration whether it succeeded; None where nothing says so.

    Args:
        path: of the dataset; where it cannot be opened, the attributes alone are asked.
        names: of the demonstrations.
        attributes: of the demonstrations, as they were loaded.
    """
    said = [_by_attributes(about) for about in attributes]
    if all(label is not None for label in said) or not path.exists():
        return said
    try:
        with open_dataset(path) as reader:
            if not set(names) <= set(reader.episode_names):
                return said
            arrays = _by_arrays(reader, names)
    except UserError:  # read once already, and nothing else depends on it
        return said
    return [array if label is None else label for label, array in zip(said, arrays, strict=True)]


def _by_attributes(attributes: Mapping[str, Any]) -> bool | None:
    for key in SUCCESS:
        value = attributes.get(key)
        if isinstance(value, bool | int | float | np.bool_):
            return bool(value)
    return None


def _by_arrays(reader: DatasetReader, names: Sequence[str]) -> list[bool | None]:
    known = reader.arrays(names[0])
    for keys, is_certain in ((SUCCESS, True), (REWARDS, False), (DONES, False)):
        key = next((key for key in keys if key in known), None)
        if key is None:
            continue
        # Also a success that was reached and lost again counts: what it is worth is for the user to say.
        labels = [bool(np.asarray(reader.read(name, key), np.float64).max(initial=0) > 0) for name in names]
        if is_certain or any(labels):
            return list(labels)
    return [None] * len(names)
