"""When and what is measured for a refresh: losses and embeddings of all windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.data.scratch_tables import scratch_table
from beacon.devices import upload
from beacon.errors import UserError
from beacon.methods.base import Features, Indices, MethodContext, State, choose_features
from beacon.methods.beacon.large_data import choose_old, nearest_measured
from beacon.plain import OMIT_DEFAULT, Part
from beacon.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.policy import Encoding

MEASUREMENTS: Registry[type[Measurement]] = Registry(
    "measurement", "beacon.measurements", home="beacon.methods.beacon.measurement"
)
PART = 65_536  # rows that are copied together
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

    def pace(self, context: MethodContext) -> int:
        """The least number of epochs between two refreshes, so that they stay cheap beside the training.

        Args:
            context: of the run.
        """
        return 1

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
    # Beyond so many windows, where a pass over them takes more than max_age epochs, the cost of a refresh is
    # bounded by the two options below; 0: never.
    bounded_beyond: int = field(default=20_000, metadata=OMIT_DEFAULT)
    # Then: refreshes in a pass over the data.
    refreshes_per_pass: int = field(default=4, metadata=OMIT_DEFAULT)
    # Then: windows that are computed anew, as a share of those that gradient steps have seen since the last
    # refresh.
    sweep_share: float = field(default=0.08, metadata=OMIT_DEFAULT)

    first_epoch: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("max_age", "draws", "refreshes_per_pass"):
            _require_at_least_one(name, getattr(self, name))
        for name in ("bounded_beyond", "sweep_share"):
            if not getattr(self, name) >= 0:
                raise UserError(
                    f"--measurement.{name.replace('_', '-')} {getattr(self, name)}: must be at least 0"
                )

    def is_bounded(self, context: MethodContext) -> bool:
        """Whether a run has so many windows that the cost of a refresh is bounded.

        Args:
            context: of the run.
        """
        return 0 < self.bounded_beyond < len(context.windows) and _epochs_a_pass(context) > self.max_age

    def pace(self, context: MethodContext) -> int:
        """A part of a pass over the data, where that takes long; never so long that there is no refresh."""
        if not self.is_bounded(context):
            return 1
        wanted = _epochs_a_pass(context) // self.refreshes_per_pass
        return max(1, min(wanted, context.epochs - self.first_epoch))

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
        # How many windows a refresh may compute anew; None: all that are too old.
        self._most: int | None = None
        if options.is_bounded(context):
            seen = options.pace(context) * context.steps_per_epoch * context.batch_size
            self._most = int(options.sweep_share * seen)
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
        max_age, episodes = self._options.max_age, self._context.windows.episode
        if self._most is not None:
            max_age = max(max_age, _epochs_a_pass(self._context))
        stale = np.flatnonzero(self.epoch < max(epoch - max_age, 0))
        if self._most is not None and len(stale) > self._most:
            stale = choose_old(stale, self.epoch, episodes, self._most)
        if len(stale):
            measured = self._context.measure_own(stale, self._options.draws, epoch)
            own = stale[self._context.shard.part(stale)]
            self._keep(own, measured.losses, choose_features(measured, self._features), epoch)
            self.epoch[stale] = epoch
        assert self._losses is not None and self._embeddings is not None
        if self._most is not None:
            self._fill_in()
        return Measured(self._losses, self._embeddings, len(stale))

    def _fill_in(self) -> None:
        """Give own windows that were never measured the values of their neighbours in time."""
        import torch

        assert self._losses is not None and self._embeddings is not None
        rows = slice(self._own.start, self._own.stop)
        missing, nearest = nearest_measured(self.epoch[rows], self._context.windows.episode[rows])
        for start in range(0, len(missing), PART):
            part = slice(start, start + PART)
            there, here = (
                upload(torch.from_numpy(which[part]), self._losses.device) for which in (missing, nearest)
            )
            self._losses[there] = self._losses[here]
            self._embeddings[there] = self._embeddings[here]

    def _keep(self, index: Indices, losses: Tensor, embeddings: Tensor, epoch: int) -> None:
        import torch

        if self._losses is None or self._embeddings is None:
            self._losses = torch.zeros(len(self._own), device=losses.device)
            self._embeddings = scratch_table(len(self._own), embeddings.shape[1], losses.device)
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
        self._losses = torch.from_numpy(losses[rows])
        self._embeddings = scratch_table(len(losses[rows]), embeddings.shape[1], self._losses.device)
        self._embeddings.copy_(torch.from_numpy(embeddings[rows]))
        self.epoch = epoch


def _epochs_a_pass(context: MethodContext) -> int:
    """Whole epochs in which gradient steps compute as many windows as there are."""
    return len(context.windows) // (context.steps_per_epoch * context.batch_size)


def _require_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"--measurement.{name.replace('_', '-')} {value}: must be at least 1")
