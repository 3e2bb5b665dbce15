"""What is in a dataset, without judging it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing
from beacon.data.formats.base import ACTIONS, ArrayInfo, DatasetReader
from beacon.data.images import value_range
from beacon.data.loading import select_episodes
from beacon.errors import UserError

SAMPLED = 5  # demonstrations whose images are read for the range of their values


@dataclass
class ArraySummary:
    """One kind of array over all demonstrations."""

    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)  # shape without time -> demonstrations
    dtypes: dict[str, int] = field(default_factory=dict)
    low: float = math.nan
    high: float = math.nan
    sampled: bool = False  # the range is from some demonstrations only

    @property
    def episodes(self) -> int:
        """How many demonstrations have it."""
        return sum(self.shapes.values())

    def add(self, info: ArrayInfo) -> None:
        """Count one demonstration."""
        self.shapes[info.shape[1:]] = self.shapes.get(info.shape[1:], 0) + 1
        self.dtypes[str(info.dtype)] = self.dtypes.get(str(info.dtype), 0) + 1

    def widen(self, array: NDArray[Any]) -> None:
        """Take the values of one demonstration into the range."""
        if array.dtype.kind in "biuf" and array.size:
            low, high = value_range(array)
            self.low, self.high = float(np.fmin(self.low, low)), float(np.fmax(self.high, high))


@dataclass(frozen=True)
class DatasetSummary:
    """The contents of a dataset at a glance."""

    path: Path
    format_name: str
    episodes: list[str]
    lengths: NDArray[np.int64]  # (E,)
    arrays: dict[str, ArraySummary]
    masks: dict[str, int]
    environment: str


def summarize(reader: DatasetReader, mask: str | None = None) -> DatasetSummary:
    """Read the headers of all demonstrations, all small arrays, and the images of some."""
    episodes = select_episodes(reader, mask, None)
    picked = set(spread(episodes, SAMPLED))
    lengths = np.zeros(len(episodes), np.int64)
    arrays: dict[str, ArraySummary] = {}
    for e, episode in enumerate(episodes):
        found = reader.arrays(episode)
        shape = found[ACTIONS].shape if ACTIONS in found else ()
        lengths[e] = shape[0] if shape else 0
        for name, info in found.items():
            summary = arrays.setdefault(name, ArraySummary())
            summary.add(info)
            large = len(info.shape) > 3
            summary.sampled |= large and len(picked) < len(episodes)
            if not large or episode in picked:
                summary.widen(reader.read(episode, name))
    return DatasetSummary(
        path=reader.path,
        format_name=reader.format_name,
        episodes=episodes,
        lengths=lengths,
        arrays={name: arrays[name] for name in sorted(arrays, key=_order)},
        masks={key: len(names) for key, names in reader.masks.items()},
        environment=describe_environment(reader.env_args),
    )


def describe_environment(env_args: Mapping[str, Any]) -> str:
    """The environment's description in one line."""
    if not env_args:
        return "not described"
    kinds = {1: "robosuite", 2: "gym", 3: "iGibson"}
    kwargs = env_args.get("env_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    parts = [str(env_args.get("env_name", "unnamed"))]
    if "type" in env_args:
        parts.append(kinds.get(env_args["type"], f"type {env_args['type']}"))
    if env_args.get("env_version"):
        parts.append(f"version {env_args['env_version']}")
    for key in ("robots", "controller", "control_freq", "camera_names", "camera_heights", "camera_widths"):
        if key in kwargs:
            value = kwargs[key]
            parts.append(f"{key} {listing(map(str, value)) if isinstance(value, list) else value}")
    return ", ".join(parts)


def spread(names: list[str], most: int) -> list[str]:
    """At most ``most`` of the names, evenly from the first to the last."""
    if len(names) <= most:
        return list(names)
    return [names[i] for i in np.linspace(0, len(names) - 1, most).round().astype(int)]


def cameras_of(reader: DatasetReader, episode: str) -> list[str]:
    """The cameras of a demonstration that can be shown."""
    from beacon.data.images import image_fault, looks_like_camera

    keys = reader.observation_keys(episode)
    cameras = sorted(
        k for k, info in keys.items() if looks_like_camera(k, info) and image_fault(info) is None
    )
    if not cameras:
        raise UserError(
            f"{reader.path}, {episode}: no camera images to show; there are {listing(sorted(keys))}"
        )
    return cameras


def _order(name: str) -> tuple[bool, bool, str]:
    return (name != ACTIONS, not name.startswith("obs/"), name)
