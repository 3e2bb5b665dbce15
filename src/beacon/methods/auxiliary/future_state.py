"""Future-state prediction: features of either domain have to tell, by one linear readout, where the robot
goes.

A demonstration says afterwards what its first images meant: the robot went to where the objects were. A
linear readout of the robot's future states, fitted to the features of the source, must hold for those of the
target. Its error is a discrepancy between the domains that compares what images mean. A distance between two
sets of features compares only which features there are; where another camera sees the same places elsewhere,
making that small takes away what tells places apart.

Errors are measured in units that noise of the target's sensors cannot inflate (``units``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.auxiliary.base import AUXILIARY_LOSSES, AuxiliaryLoss, BuiltAuxiliaryLoss
from beacon.methods.base import Features, State, choose_features
from beacon.plain import OMIT_DEFAULT

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch, Windows
    from beacon.methods.base import MethodContext
    from beacon.policy import Encoding

ROUNDING = 1e-6  # a spread below this share of the values is that of float32
Units = Literal["source", "larger"]
CHANGING = ("gram", "cross", "steps")  # parts of the state


@AUXILIARY_LOSSES.register("future-state")
@dataclass(frozen=True)
class FutureState(AuxiliaryLoss):
    """Error of a linear readout of the robot's future proprioception, fitted on the source, on both
    domains.
    """

    # Strength of the mean squared error, in units of the source's variance.
    strength: float = 0.01
    # Moments of the future, as shares of what is left of the episode.
    horizon_fractions: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    # Share of the readout's statistics that is kept from one gradient step to the next.
    decay: float = 0.99
    # Ridge of the readout, as a share of the mean squared feature.
    ridge: float = 1e-3
    # Features that are read: of the images alone, or of the whole observation.
    features: Features = "vision"
    # What an error is measured in: the source's spread of each predicted value ("source"), or the larger of
    # that and of the target's deviation from the source's mean ("larger"). What hardly varies in the source
    # and is noisy in the target, such as the orientation of a hand that never turns, would otherwise count a
    # hundred times as much as positions.
    units: Units = "larger"
    # Off where the target's motion fits a model of the source's so many times worse than the source's own
    # does, or where the data cannot tell; None: always on. Where source and target move otherwise, the loss
    # gained nothing and once lost half of what the target does not show (docs/findings.md). Left out of keys,
    # which are older than it.
    largest_dynamics_gap: float | None = field(default=3.0, metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise UserError(f"strength {self.strength}: must be at least 0, and finite")
        if not self.horizon_fractions or not all(0 < share <= 1 for share in self.horizon_fractions):
            raise UserError("horizon_fractions: shares above 0 and at most 1 expected")
        if not 0 <= self.decay < 1 or not self.ridge > 0:
            raise UserError("decay must be at least 0 and below 1, and ridge above 0")
        if self.largest_dynamics_gap is not None and not self.largest_dynamics_gap > 0:
            raise UserError(f"largest_dynamics_gap {self.largest_dynamics_gap}: must be above 0, or None")

    def build(self, context: MethodContext) -> FutureStateLoss | None:
        """None where it has no strength, no source to be fitted on, no proprioception to predict, or where
        source and target do not move alike.
        """
        if not self.strength or not len(context.source_windows) or not context.windows.sets[0].proprio:
            return None
        if self.largest_dynamics_gap is not None and not self._moves_alike(context):
            return None
        return FutureStateLoss(self, context.windows, context.target)

    def _moves_alike(self, context: MethodContext) -> bool:
        """Whether the same actions move source and target alike, as far as the data tell; says so."""
        assert self.largest_dynamics_gap is not None
        if not len(context.target_windows):
            return True  # nothing that could differ
        gap = context.dynamics_gap
        if gap is None:
            context.remark(
                "future-state loss: off, the data do not tell whether source and target move alike"
            )
            return False
        alike = gap <= self.largest_dynamics_gap
        said = "on, source and target move alike" if alike else "off, the target moves otherwise"
        context.remark(
            f"future-state loss: {said} (the target's misfit is {gap:.1f} × the source's own, limit "
            f"{self.largest_dynamics_gap:g})"
        )
        return alike


def future_states(windows: Windows, fractions: tuple[float, ...]) -> NDArray[np.float32]:
    """Proprioception at these fractions of what is left of each window's episode, (N, fractions × d)."""
    shares = np.array(fractions)
    futures = []
    for episodes in windows.sets:
        state = np.concatenate([episodes.proprio[key] for key in sorted(episodes.proprio)], axis=1)
        lengths = episodes.lengths
        first = np.cumsum(lengths) - lengths
        row = np.repeat(episodes.starts - first, lengths) + np.arange(lengths.sum())  # (N,) of `state`
        last = np.repeat(episodes.starts + lengths - 1, lengths)
        position = row[:, None] + shares * (last - row)[:, None]  # (N, fractions), between two rows
        before = np.floor(position).astype(np.int64)
        after = np.minimum(before + 1, last[:, None])
        share = (position - before)[..., None].astype(np.float32)
        future = (1 - share) * state[before] + share * state[after]  # (N, fractions, d)
        futures.append(future.reshape(len(future), -1))
    return np.asarray(np.concatenate(futures), np.float32)


def in_units(future: NDArray[np.float32], on_target: NDArray[np.bool_], units: Units) -> NDArray[np.float32]:
    """Future states relative to the source's mean; what never changes in the source is zero.

    Args:
        future: (N, L), as `future_states` gives them.
        on_target: (N,) which of them are of the target.
        units: as `FutureState` has them.
    """
    of_source = future[~on_target].astype(np.float64)
    mean, unit = of_source.mean(axis=0), of_source.std(axis=0)
    changes = unit > ROUNDING * np.abs(of_source).max(axis=0)
    if units == "larger" and on_target.any():
        unit = np.maximum(unit, np.sqrt(np.square(future[on_target] - mean).mean(axis=0)))
    scaled = np.where(changes, (future - mean) / np.where(changes, unit, 1), 0)
    return np.asarray(scaled, np.float32)


class FutureStateLoss(BuiltAuxiliaryLoss):
    """The error of a readout that follows the features of the source as they change."""

    def __init__(self, options: FutureState, windows: Windows, target: int) -> None:
        import torch

        self._options, self._target = options, target
        future = future_states(windows, options.horizon_fractions)
        self._future = torch.from_numpy(in_units(future, windows.domain == target, options.units))
        # Sums over the source windows of recent mini-batches, with a one beside the features x:
        # Σ x xᵀ (F + 1, F + 1) and Σ x yᵀ (F + 1, L).
        self._gram: Tensor | None = None
        self._cross: Tensor | None = None
        self._steps = 0

    def loss(self, batch: WindowBatch, encoding: Encoding) -> Tensor:
        """Strength × error of the readout over the mini-batch."""
        return self._options.strength * self.error(batch, choose_features(encoding, self._options.features))

    def error(self, batch: WindowBatch, features: Tensor) -> Tensor:
        """Mean squared error of the readout over the mini-batch, of features (B, F); it moves features alone.

        It counts in full once the readout has seen enough to mean something.
        """
        import torch

        self._future = self._future.to(features.device)  # once: no step waits
        future = self._future[batch.index]
        points = torch.cat(
            [features.float(), features.new_ones(len(features), 1, dtype=torch.float32)], dim=1
        )
        _, on_source = batch.rows(self._target)
        self._learn(points.detach()[on_source], future[on_source])
        error = (points @ self._readout() - future).square().mean()
        return (1 - self._options.decay**self._steps) * error

    def _learn(self, points: Tensor, future: Tensor) -> None:
        gram, cross = points.T @ points, points.T @ future
        if self._gram is None or self._cross is None:
            self._gram, self._cross = gram, cross
        else:
            self._gram = self._options.decay * self._gram.to(gram.device) + gram
            self._cross = self._options.decay * self._cross.to(cross.device) + cross
        self._steps += 1

    def _readout(self) -> Tensor:
        import torch

        assert self._gram is not None and self._cross is not None
        ridge = self._options.ridge * self._gram.diagonal().mean() + 1e-12
        identity = torch.eye(len(self._gram), device=self._gram.device)
        # Not `solve`: where training diverged, the trainer has to say so.
        readout: Tensor = torch.linalg.solve_ex(self._gram + ridge * identity, self._cross).result
        return readout

    def state_dict(self) -> State:
        """The readout's statistics, as arrays; nothing before the first gradient step."""
        if self._gram is None or self._cross is None:
            return {}
        values = (self._gram.cpu().numpy(), self._cross.cpu().numpy(), np.array(self._steps))
        return {name: value.copy() for name, value in zip(CHANGING, values, strict=True)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        import torch

        if not state:
            return
        try:
            gram, cross, steps = (np.array(state[name]) for name in CHANGING)
        except KeyError as error:
            raise UserError(f"the checkpoint belongs to another run: future-state has no {error}") from None
        if cross.shape != (len(gram), self._future.shape[1]):
            raise UserError("the checkpoint belongs to other data: its future states are of another robot")
        self._gram, self._cross = torch.from_numpy(gram), torch.from_numpy(cross)
        self._steps = int(steps)
