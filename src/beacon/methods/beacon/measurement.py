"""When and what is measured for a refresh: losses and embeddings of all windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.devices import upload
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
    """Losses (N,) and embeddings (N, F) of all windows of this process's shard, and how many windows were
    computed for it in all processes.
    """

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

    # Noise draws per window; the paper is silent.
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
        measured = self._context.measure_own(everything, self._options.draws, epoch)
        return Measured(measured.losses, choose_features(measured, self._features), len(everything))


class RecentMeasurements(BuiltMeasurement):
    """The last loss and embedding that was computed of every window of this process's shard, and when.

    Losses and embeddings stay on the device of the policy until a refresh asks for them.
    """

    def __init__(self, options: ReuseGradientSteps, context: MethodContext, features: Features) -> None:
        self._options, self._context, self._features = options, context, features
        self.epoch: NDArray[np.int64] = np.full(len(context.windows), -1)
        self._own = range(len(context.windows))[context.shard.rows]
        self._losses: Tensor | None = None  # (own,) float32
        self._embeddings: Tensor | None = None  # (own, F) float32

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor, epoch: int) -> None:
        """Remember what was computed of these windows."""
        if self._losses is not None and self._embeddings is not None:  # after a resume, of another device
            self._losses = self._losses.to(losses.device)
            self._embeddings = self._embeddings.to(losses.device)
        self._keep(index, losses, choose_features(encoding, self._features), epoch)

    def at(self, epoch: int) -> Measured:
        """What is remembered, after computing what is too old or was never seen."""
        stale = np.flatnonzero(self.epoch < max(epoch - self._options.max_age, 0))
        if len(stale):
            measured = self._context.measure_own(stale, self._options.draws, epoch)
            own = stale[self._context.shard.part(stale)]
            self._keep(own, measured.losses, choose_features(measured, self._features), epoch)
            self.epoch[stale] = epoch
        assert self._losses is not None and self._embeddings is not None
        return Measured(self._losses, self._embeddings, len(stale))

    def _keep(self, index: Indices, losses: Tensor, embeddings: Tensor, epoch: int) -> None:
        import torch

        if self._losses is None or self._embeddings is None:
            self._losses = torch.zeros(len(self._own), device=losses.device)
            self._embeddings = torch.zeros(len(self._own), embeddings.shape[1], device=losses.device)
        # Of a window that comes twice in a mini-batch the last one must win, on every device.
        windows, from_end = np.unique(index[::-1], return_index=True)
        kept = (windows >= self._own.start) & (windows < self._own.stop)
        windows, from_end = windows[kept] - self._own.start, from_end[kept]
        device = self._losses.device
        rows = upload(torch.from_numpy(windows), device)
        last = upload(torch.from_numpy(len(index) - 1 - from_end), losses.device)
        self._losses[rows] = losses.detach().float()[last].to(device)
        self._embeddings[rows] = embeddings.detach().float()[last].to(device)
        self.epoch[index] = epoch

    def state_dict(self) -> State:
        """Everything that is remembered by all processes, as arrays; nothing before the first, and nothing in
        any but the first process.
        """
        if self._losses is None or self._embeddings is None:
            return {}
        collected = [self._context.shard.collect(part) for part in (self._losses, self._embeddings)]
        kept = [part.cpu().numpy() for part in collected if part is not None]
        if not kept:  # another process writes
            return {}
        return {name: array.copy() for name, array in zip(KEPT, [*kept, self.epoch], strict=True)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        import torch

        if not state:
            return
        try:
            losses, embeddings, epoch = (np.array(state[name]) for name in KEPT)
        except KeyError as error:
            raise UserError(f"the checkpoint belongs to another method: no measured {error}") from None
        size = len(self.epoch)
        if losses.shape != (size,) or epoch.shape != (size,) or embeddings.shape[:1] != (size,):
            raise UserError(f"the checkpoint belongs to other data: of {losses.size} windows, not {size}")
        rows = self._context.shard.rows
        self._losses, self._embeddings = torch.from_numpy(losses[rows]), torch.from_numpy(embeddings[rows])
        self.epoch = epoch


def _require_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"--measurement.{name.replace('_', '-')} {value}: must be at least 1")
