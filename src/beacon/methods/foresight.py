"""Foresight: features of either domain have to tell, by one linear readout, where the robot is going.

A demonstration says afterwards what its first images meant: the robot went to where the objects were. A
linear readout of the robot's way ahead, fitted to the features of the source, must hold for those of the
target. Its error is a discrepancy between the domains that compares what images mean. A distance between two
sets of features compares only which features there are; where another camera sees the same places elsewhere,
making that small takes away what tells places apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch, Windows

MOMENTS = np.array([0.2, 0.4, 0.6, 0.8, 1.0])  # of the way ahead, as shares of what is left of the episode
MEMORY = 0.99  # what is kept of the readout's statistics from one gradient step to the next
RIDGE = 1e-3  # of the mean squared feature
PARTS = ("gram", "cross", "steps")  # what changes


def ways_ahead(windows: Windows) -> NDArray[np.float32]:
    """Proprioception at `MOMENTS` of what is left of each window's episode, (N, moments × d)."""
    ways = []
    for episodes in windows.sets:
        state = np.concatenate([episodes.proprio[key] for key in sorted(episodes.proprio)], axis=1)
        lengths = episodes.lengths
        first = np.cumsum(lengths) - lengths
        row = np.repeat(episodes.starts - first, lengths) + np.arange(lengths.sum())  # (N,) of `state`
        last = np.repeat(episodes.starts + lengths - 1, lengths)
        place = row[:, None] + MOMENTS * (last - row)[:, None]  # (N, moments), between two rows
        before = np.floor(place).astype(np.int64)
        after = np.minimum(before + 1, last[:, None])
        share = (place - before)[..., None].astype(np.float32)
        way = (1 - share) * state[before] + share * state[after]  # (N, moments, d)
        ways.append(way.reshape(len(way), -1))
    found: NDArray[np.float32] = np.concatenate(ways).astype(np.float32)
    return found


class Foresight:
    """The error of a readout that follows the features of the source as they change."""

    def __init__(self, windows: Windows, target: int) -> None:
        import torch

        way = ways_ahead(windows)
        of_source = way[windows.domain != target]
        spread = of_source.std(axis=0)
        # In units of the source's own spread; what never changes says nothing.
        way = np.where(spread > 0, (way - of_source.mean(axis=0)) / np.where(spread > 0, spread, 1), 0)
        self._way = torch.from_numpy(way.astype(np.float32))
        self._target = target
        # Sums over the source windows of recent mini-batches, with a one beside the features x:
        # Σ x xᵀ (F + 1, F + 1) and Σ x yᵀ (F + 1, L).
        self._gram: Tensor | None = None
        self._cross: Tensor | None = None
        self._steps = 0

    def loss(self, batch: WindowBatch, features: Tensor) -> Tensor:
        """Mean squared error of the readout over the mini-batch, of features (B, F); it moves features alone.

        It counts in full once the readout has seen enough to mean something.
        """
        import torch

        way = self._way[batch.index.cpu()].to(features.device)
        points = torch.cat(
            [features.float(), features.new_ones(len(features), 1, dtype=torch.float32)], dim=1
        )
        on_source = batch.domain.to(features.device) != self._target
        self._learn(points.detach()[on_source], way[on_source])
        error = (points @ self._readout() - way).square().mean()
        return (1 - MEMORY**self._steps) * error

    def _learn(self, points: Tensor, way: Tensor) -> None:
        gram, cross = points.T @ points, points.T @ way
        if self._gram is None or self._cross is None:
            self._gram, self._cross = gram, cross
        else:
            self._gram = MEMORY * self._gram.to(gram.device) + gram
            self._cross = MEMORY * self._cross.to(cross.device) + cross
        self._steps += 1

    def _readout(self) -> Tensor:
        import torch

        assert self._gram is not None and self._cross is not None
        ridge = RIDGE * self._gram.diagonal().mean() + 1e-12
        identity = torch.eye(len(self._gram), device=self._gram.device)
        # Not `solve`: where training diverged, the trainer has to say so.
        found: Tensor = torch.linalg.solve_ex(self._gram + ridge * identity, self._cross).result
        return found

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The readout's statistics, as arrays; nothing before the first gradient step."""
        if self._gram is None or self._cross is None:
            return {}
        values = (self._gram.cpu().numpy(), self._cross.cpu().numpy(), np.array(self._steps))
        return {name: value.copy() for name, value in zip(PARTS, values, strict=True)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        import torch

        if not state:
            return
        try:
            gram, cross, steps = (np.array(state[name]) for name in PARTS)
        except KeyError as error:
            raise UserError(f"the checkpoint belongs to another method: no {error} of foresight") from None
        if cross.shape != (len(gram), self._way.shape[1]):
            raise UserError("the checkpoint belongs to other data: its foresight is of other proprioception")
        self._gram, self._cross = torch.from_numpy(gram), torch.from_numpy(cross)
        self._steps = int(steps)
