"""From one control rate to another: which recorded frames the new steps are, and what their actions are."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Resample = Literal["hold", "sum"]
_ROUNDING = 1e-6  # steps: 30 / 10 is three frames, whatever the floats say


def step_frames(frames: int, recorded: float, wanted: float) -> NDArray[np.int64]:
    """The recorded frame at which each step of the new rate begins, (S,).

    >>> step_frames(7, 30.0, 10.0).tolist(), step_frames(3, 10.0, 20.0).tolist()
    ([0, 3, 6], [0, 0, 1, 1, 2, 2])

    Args:
        frames: how many were recorded.
        recorded: rate of the recording.
        wanted: the new rate.
    """
    ratio = recorded / wanted
    steps = max(1, int(np.ceil(frames / ratio - _ROUNDING)))
    begin = np.floor(np.arange(steps) * ratio + _ROUNDING).astype(np.int64)
    return np.asarray(np.minimum(begin, frames - 1))


def resample(values: NDArray[np.float64], begin: NDArray[np.int64], how: Resample) -> NDArray[np.float64]:
    """Actions (T, d) at the new steps (S, d).

    ``hold``: the action at the step's first frame; for targets, velocities and grippers.
    ``sum``: the sum over the frames of the step, or an equal share where a frame becomes several steps; for
    differences from frame to frame, so that they add up to the same.

    Args:
        values: one row a recorded frame.
        begin: from `step_frames`.
        how: hold or sum.
    """
    if how == "hold":
        return values[begin]
    frame, step, repeats = np.unique(begin, return_index=True, return_counts=True)
    sums = np.add.reduceat(values, frame, axis=0) / repeats[:, None]
    return np.repeat(sums, repeats, axis=0) if len(step) < len(begin) else sums


def step_of_frame(frames: int, begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each recorded frame, the step that it belongs to, (T,)."""
    return np.searchsorted(begin, np.arange(frames), side="right") - 1
