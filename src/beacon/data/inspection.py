"""What is in a dataset, without judging it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing, printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, DatasetReader
from beacon.data.images import image_fault, looks_like_camera, value_range
from beacon.data.loading import select_episodes
from beacon.errors import UserError
from beacon.progress import each

SAMPLED = 5  # demonstrations whose images are read for the range of their values
LOOKED_INTO = 300  # demonstrations whose other arrays are read; of more, so many evenly spread
LARGE = 4_096  # values a step from which on an array is read as pictures are, whatever its shape
WIDEST = 64  # dimensions of a vector that are shown one by one
MOST_ROWS = 20_000  # of a vector that are kept for the plots of its dimensions


@dataclass
class ArraySummary:
    """One kind of array over all demonstrations."""

    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)  # shape without time -> demonstrations
    dtypes: dict[str, int] = field(default_factory=dict)
    low: float = math.nan
    high: float = math.nan
    sampled: bool = False  # the range is from some demonstrations only
    names: list[str] | None = None  # of the dimensions
    rows: list[NDArray[np.float64]] = field(default_factory=list)  # some of the values, (n, d) each

    @property
    def episodes(self) -> int:
        """How many demonstrations have it."""
        return sum(self.shapes.values())

    @property
    def values(self) -> NDArray[np.float64] | None:
        """(n, d) values for plots; None where there are none, or the dimensions change."""
        if not self.rows or len({part.shape[1] for part in self.rows}) > 1:
            return None
        return np.concatenate(self.rows)

    def add(self, info: ArrayInfo) -> None:
        """Count one demonstration."""
        self.shapes[info.shape[1:]] = self.shapes.get(info.shape[1:], 0) + 1
        self.dtypes[str(info.dtype)] = self.dtypes.get(str(info.dtype), 0) + 1

    def widen(self, array: NDArray[Any], share: int = 1) -> None:
        """Take the values of one demonstration into the range, and some of them into the plots."""
        if array.dtype.kind not in "biuf" or not array.size:
            return
        low, high = value_range(array)
        self.low, self.high = float(np.fmin(self.low, low)), float(np.fmax(self.high, high))
        if array.ndim in (1, 2) and array.size // len(array) <= WIDEST:
            stride = max(1, math.ceil(len(array) * share / MOST_ROWS))
            self.rows.append(array.reshape(len(array), -1)[::stride].astype(np.float64))


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
    fps: float | None
    tasks: list[str]
    looked_into: int  # demonstrations whose arrays were read


def summarize(reader: DatasetReader, mask: str | None = None) -> DatasetSummary:
    """Read the headers, the small arrays of up to `LOOKED_INTO` demonstrations, and the images of some.

    Args:
        reader: the dataset.
        mask: look only at the demonstrations of this mask.
    """
    episodes = select_episodes(reader, mask, None)
    chosen = spread(episodes, LOOKED_INTO)
    pictured = set(spread(episodes, SAMPLED))
    arrays: dict[str, ArraySummary] = {}
    tasks: dict[str, None] = {}
    for episode in each(chosen, f"reading {reader.path.name}"):
        task = reader.attributes(episode).get("task")
        if isinstance(task, str):
            tasks[task] = None
        for name, info in reader.arrays(episode).items():
            summary = arrays.setdefault(name, ArraySummary())
            summary.add(info)
            large = len(info.shape) > 3 or math.prod(info.shape[1:]) > LARGE
            summary.sampled |= (large and len(pictured) < len(episodes)) or len(chosen) < len(episodes)
            if large and episode in pictured:
                summary.widen(next(reader.blocks(episode, name)))
            elif not large:
                summary.widen(reader.read(episode, name), len(chosen))
    for name, summary in arrays.items():
        summary.names = reader.dimension_names(name)
    return DatasetSummary(
        path=reader.path,
        format_name=reader.format_name,
        episodes=episodes,
        lengths=np.array([reader.length(episode) for episode in episodes], np.int64),
        arrays={name: arrays[name] for name in sorted(arrays, key=_order)},
        masks={key: len(names) for key, names in reader.masks.items()},
        environment=describe_environment(reader.env_args),
        fps=reader.fps,
        tasks=list(tasks),
        looked_into=len(chosen),
    )


def describe_environment(env_args: Mapping[str, Any]) -> str:
    """The environment's description in one line."""
    if not env_args:
        return "not described"
    simulators = {"1": "robosuite", "2": "gym", "3": "iGibson"}
    kwargs = env_args.get("env_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    parts = [_brief(env_args.get("env_name", "unnamed"))]
    if "type" in env_args:
        number = _brief(env_args["type"])
        parts.append(simulators.get(number, f"type {number}"))
    if env_args.get("env_version"):
        parts.append(f"version {_brief(env_args['env_version'])}")
    for key in ("robots", "controller", "control_freq", "camera_names", "camera_heights", "camera_widths"):
        if key in kwargs:
            value = kwargs[key]
            parts.append(f"{key} {listing(map(_brief, value)) if isinstance(value, list) else _brief(value)}")
    return ", ".join(parts)


def spread(names: list[str], most: int) -> list[str]:
    """At most ``most`` of the names, evenly from the first to the last."""
    if len(names) <= most:
        return list(names)
    return [names[i] for i in np.linspace(0, len(names) - 1, most).round().astype(int)]


def cameras_of(reader: DatasetReader, episode: str) -> list[str]:
    """The cameras of a demonstration that can be shown."""
    keys = reader.observation_keys(episode)
    cameras = sorted(
        k for k, info in keys.items() if looks_like_camera(k, info) and image_fault(info) is None
    )
    if not cameras:
        raise UserError(
            f"{reader.path}, {printable(episode)}: no camera images to show; "
            f"there are {listing(sorted(keys))}"
        )
    return cameras


def _brief(value: Any) -> str:
    text = printable(str(value))
    return text if len(text) <= 200 else text[:197] + "..."


def _order(name: str) -> tuple[bool, bool, str]:
    return (name != ACTIONS, not name.startswith(OBSERVATION), name)
