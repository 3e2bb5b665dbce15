"""What is in a LeRobot dataset and what it is called elsewhere: arrays, masks, notes of our own writer."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beacon.data.formats.base import ACTIONS, OBSERVATION
from beacon.data.formats.lerobot_metadata import (
    INDEX_COLUMNS,
    EpisodeEntry,
    Feature,
    Metadata,
    incomplete,
)
from beacon.errors import UserError

# Numbers about an episode that nobody observes.
NOT_OBSERVED = ("next.", "annotation.", "reward", "done", "success")
EXTRA_FILE = "meta/beacon.json"  # what the format has no place for, written by our own writer
LARGEST_EXTRA = 1 << 26  # bytes


def complete_episodes(path: Path, meta: Metadata, *, skip: bool) -> list[EpisodeEntry]:
    """The episodes whose files are there.

    Args:
        path: of the dataset.
        meta: what it says of itself.
        skip: leave out the others, instead of refusing the dataset.
    """
    checked: dict[Path, str | None] = {}
    faults = {entry.name: incomplete(path, entry, checked) for entry in meta.episodes}
    broken = {name: fault for name, fault in faults.items() if fault is not None}
    if broken and not skip:
        name, fault = next(iter(broken.items()))
        raise UserError(
            f"{path} is incomplete: {len(broken)} of {len(faults)} episodes lack a file; "
            f"{name}: {fault}; "
            "get what is missing, or leave such episodes out: --skip-incomplete (data, train), "
            "or skip_incomplete: true in a card"
        )
    whole = [entry for entry in meta.episodes if entry.name not in broken and entry.length > 0]
    if broken and not whole:
        raise UserError(f"{path}: every episode is incomplete; {next(iter(broken.values()))}")
    return whole


def array_names(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Name for everybody else -> feature.

    Args:
        features: as info.json lists them.
    """
    names: dict[str, Feature] = {}
    for name, feature in features.items():
        if name in INDEX_COLUMNS or feature.depth or feature.dtype == "string":
            continue
        if not feature.is_camera and np.dtype(numpy_name(feature.dtype)).kind not in "biuf":
            continue
        if name in ("action", "actions") and ACTIONS not in names:
            names[ACTIONS] = feature
        elif name.startswith(NOT_OBSERVED):
            names[name] = feature
        else:
            names[OBSERVATION + name] = feature
    return names


def episode_masks(
    meta: Metadata, entries: Sequence[EpisodeEntry], extra: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Named subsets: the splits of info.json, or the masks that our writer noted.

    Args:
        meta: of the dataset.
        entries: the episodes that are read.
        extra: what our writer noted.
    """
    masks = {}
    # Our writer notes masks of its own; its one split is everything, which is no mask.
    splits = {} if "masks" in extra else meta.splits
    for name, text in splits.items():
        start, colon, stop = text.partition(":")
        if colon and start.isdecimal() and stop.isdecimal() and len(start + stop) < 20:
            masks[name] = [e.name for e in entries if int(start) <= e.index < int(stop)]
    noted = extra.get("masks")
    for name, numbers in noted.items() if isinstance(noted, dict) else ():
        wanted = set(numbers) if isinstance(numbers, list) and all(type(n) is int for n in numbers) else set()
        masks[name] = [e.name for e in entries if e.index in wanted]
    return {name: members for name, members in masks.items() if members}


def read_extra(path: Path) -> dict[str, Any]:
    """What `beacon data convert` noted beside a dataset; nothing where it is damaged.

    Args:
        path: of the dataset.
    """
    file = path / EXTRA_FILE
    try:
        extra = json.loads(file.read_text()) if file.is_file() and file.stat().st_size < LARGEST_EXTRA else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return extra if isinstance(extra, dict) else {}


def short_name(name: str, names: Container[str]) -> str:
    """``obs/observation.images.top`` is ``obs/top`` elsewhere, unless that would be another array's name.

    Args:
        name: of an array.
        names: of all arrays.
    """
    for prefix in ("observation.images.", "observation."):
        short = OBSERVATION + name.removeprefix(OBSERVATION + prefix)
        if name.startswith(OBSERVATION + prefix) and short not in names:
            return short
    return {"next.reward": "rewards", "next.done": "dones"}.get(name, name)


def numpy_name(dtype: str) -> str:
    """A NumPy name of a number, or one that is none.

    Args:
        dtype: as info.json says it.
    """
    try:
        return str(np.dtype(dtype))
    except (TypeError, ValueError):
        return "object"
