"""`Recording`: what an audit looks at in one demonstration, small enough to hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import EpisodeSet

GRID = 8  # cells of a coarse picture along either side
FINE_GRID = 24  # of the first picture
SUCCESS_KEYS = ("success", "next.success", "is_success")  # attributes that say how a demonstration ended


@dataclass(frozen=True, eq=False)
class Recording:
    """One demonstration of T steps."""

    name: str
    state: NDArray[np.float32]  # (T, D) all proprioception, sorted by key; D may be 0
    actions: NDArray[np.float32]  # (T, A)
    pictures: NDArray[np.float32]  # (T, G) coarse pictures of all cameras from 0 to 1; G may be 0
    first_picture: NDArray[np.float32]  # (G',) the first frame of all cameras on a finer grid; may be empty
    change: NDArray[np.float32]  # (T,) mean absolute change of a pixel since the frame before, 0 to 255
    success: bool | None  # as the data say


def read_recordings(episodes: EpisodeSet, advance: Callable[[int], None] | None = None) -> list[Recording]:
    """All demonstrations of a set; pictures are read one demonstration at a time.

    Args:
        episodes: the set; its images may be memory-mapped.
        advance: called with the number of frames after every demonstration.
    """
    recordings = []
    keys = sorted(episodes.proprio)
    for number, (start, length) in enumerate(zip(episodes.starts, episodes.lengths, strict=True)):
        rows = slice(int(start), int(start + length))
        state = [episodes.proprio[key][rows] for key in keys]
        first = int(episodes.image_starts[number])
        pictures, fine, change = [], [np.zeros(0, np.float32)], np.zeros(int(length), np.float32)
        for camera in sorted(episodes.images):
            frames = np.asarray(episodes.images[camera][first : first + int(length)])
            pictures.append(_coarse(frames, GRID))
            fine.append(_coarse(frames[:1], FINE_GRID)[0])
            change += _pixel_change(frames) / len(episodes.images)
        recordings.append(
            Recording(
                name=episodes.episode_names[number],
                state=np.concatenate(state, axis=1) if state else np.zeros((int(length), 0), np.float32),
                actions=np.asarray(episodes.actions[rows]),
                pictures=np.concatenate(pictures, axis=1)
                if pictures
                else np.zeros((int(length), 0), np.float32),
                first_picture=np.concatenate(fine),
                change=change,
                success=_success(episodes.episode_attributes[number]),
            )
        )
        if advance is not None:
            advance(int(length))
    return recordings


def _coarse(frames: NDArray[np.uint8], grid: int) -> NDArray[np.float32]:
    """Means over a grid of cells, (T, grid² · C); pictures that are smaller stay as they are."""
    steps, height, width, channels = frames.shape
    cells = min(grid, height, width)
    rows = np.linspace(0, height, cells + 1).astype(np.int64)
    columns = np.linspace(0, width, cells + 1).astype(np.int64)
    sums = np.add.reduceat(frames, rows[:-1], axis=1, dtype=np.float32)
    sums = np.add.reduceat(sums, columns[:-1], axis=2)
    areas = np.outer(np.diff(rows), np.diff(columns)).astype(np.float32)[None, :, :, None]
    return np.asarray((sums / areas / 255.0).reshape(steps, cells * cells * channels), np.float32)


def _pixel_change(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean absolute change of a pixel since the frame before, (T,); 0 for the first."""
    change = np.zeros(len(frames), np.float32)
    if len(frames) > 1:
        difference = np.abs(np.diff(frames.astype(np.int16), axis=0))
        change[1:] = difference.reshape(len(difference), -1).mean(axis=1)
    return change


def _success(attributes: dict[str, Any]) -> bool | None:
    for key in SUCCESS_KEYS:
        if key in attributes:
            return bool(attributes[key])
    return None
