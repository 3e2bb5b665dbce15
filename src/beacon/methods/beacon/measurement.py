"""When and what is measured for a refresh: losses and embeddings of all windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Features, Indices, MethodContext, State, choose_features
from beacon.plain import Part
from beacon.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.policy import Encoding

MEASUREMENTS: Registry[type[Measurement]] = Registry(
    "measurement", "beacon.measurements", home="beacon.methods.beacon.measurement"
)
KEPT = ("losses", "embeddings", "epoch")  # of recent measurements


@dataclass(frozen=True, eq=False)
class Measured:
    """Losses (N,) and embeddings (N, F) of all windows, and how many windows were computed for it."""

    losses: Tensor
    embeddings: Tensor
    swept: int


class BuiltMeasurement:
    """The measurement of one run."""

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor, epoch: int) -> None:
        """See what a gradient step of this epoch has computed."""
        return

    def at(self, epoch: int) -> Measured:
        """Everything that the refresh before this epoch needs."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """Everything that changes, as arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        return


class Measurement(Part, registry=MEASUREMENTS):
    """Options of a measurement. Subclasses are frozen dataclasses."""

    first_epoch: ClassVar[int] = 0  # before which there is nothing to measure

    def build(self, context: MethodContext, features: Features) -> BuiltMeasurement:
        """The measurement of one run.

        Args:
            context: of the run.
            features: which embeddings the discrepancy looks at.
        """
        raise NotImplementedError


@MEASUREMENTS.register("sweep-all")
@dataclass(frozen=True)
class SweepAll(Measurement):
    """Compute all windows anew at every refresh, as in the paper."""

    # Noise draws per window; paper: 1.
    draws: int = 1

    def __post_init__(self) -> None:
        _require_at_least_one("draws", self.draws)

    def build(self, context: MethodContext, features: Features) -> BuiltMeasurement:
        """The measurement of one run."""
        return _Sweep(self, context, features)


@MEASUREMENTS.register("reuse-gradient-steps")
@dataclass(frozen=True)
class ReuseGradientSteps(Measurement):
    """Reuse what the gradient steps have computed, and compute only what they have not visited lately."""

    # Epochs after which what a gradient step said of a window counts as forgotten.
    max_age: int = 4
    # Noise draws per window that is computed anew.
    draws: int = 1

    first_epoch: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _require_at_least_one("max_age", self.max_age)
        _require_at_least_one("draws", self.draws)

    def build(self, context: MethodContext, features: Features) -> BuiltMeasurement:
        """The measurement of one run."""
        return RecentMeasurements(self, context, features)


class _Sweep(BuiltMeasurement):
    def __init__(self, options: SweepAll, context: MethodContext, features: Features) -> None:
        self._options, self._context, self._features = options, context, features

    def at(self, epoch: int) -> Measured:
        everything = np.arange(len(self._context.windows))
        measured = self._context.measure(everything, self._options.draws, epoch)
        return Measured(measured.losses, choose_features(measured, self._features), len(everything))


class RecentMeasurements(BuiltMeasurement):
    """The last loss and embedding that was computed of every window, and when."""

    def __init__(self, options: ReuseGradientSteps, context: MethodContext, features: Features) -> None:
        self._options, self._context, self._features = options, context, features
        size = len(context.windows)
        # NumPy, because of a window that comes twice in a mini-batch the last one must win every time.
        self.losses: NDArray[np.float32] = np.zeros(size, np.float32)
        self.embeddings: NDArray[np.float32] = np.zeros((size, 0), np.float32)
        self.epoch: NDArray[np.int64] = np.full(size, -1)

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor, epoch: int) -> None:
        """Remember what was computed of these windows."""
        self._keep(index, losses, choose_features(encoding, self._features), epoch)

    def at(self, epoch: int) -> Measured:
        """What is remembered, after computing what is too old or was never seen."""
        import torch

        stale = np.flatnonzero(self.epoch < max(epoch - self._options.max_age, 0))
        if len(stale):
            measured = self._context.measure(stale, self._options.draws, epoch)
            self._keep(stale, measured.losses, choose_features(measured, self._features), epoch)
        return Measured(torch.from_numpy(self.losses), torch.from_numpy(self.embeddings), len(stale))

    def _keep(self, index: Indices, losses: Tensor, embeddings: Tensor, epoch: int) -> None:
        if self.embeddings.shape[1] != embeddings.shape[1]:
            self.embeddings = np.zeros((len(self.losses), embeddings.shape[1]), np.float32)
        self.losses[index] = losses.detach().float().cpu().numpy()
        self.embeddings[index] = embeddings.detach().float().cpu().numpy()
        self.epoch[index] = epoch

    def state_dict(self) -> State:
        """Everything that is remembered, as arrays; nothing before the first."""
        if self.embeddings.shape[1] == 0:
            return {}
        return {name: getattr(self, name).copy() for name in KEPT}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if not state:
            return
        try:
            losses, embeddings, epoch = (np.array(state[name]) for name in KEPT)
        except KeyError as error:
            raise UserError(f"the checkpoint belongs to another method: no measured {error}") from None
        if losses.shape != self.losses.shape or len(embeddings) != len(losses) or len(epoch) != len(losses):
            raise UserError("the checkpoint belongs to other data: it has other windows")
        self.losses, self.embeddings, self.epoch = losses, embeddings, epoch


def _require_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"--measurement.{name.replace('_', '-')} {value}: must be at least 1")
