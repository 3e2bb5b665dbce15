"""The contract of a method, and what the trainer lends it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from beacon.data.context import DataContext
from beacon.data.sensor_noise import MissingNoise, with_noise
from beacon.errors import UserError
from beacon.weighting.shard import WHOLE, Shard

if TYPE_CHECKING:  # so that a command line can read the options without waiting for torch
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.methods.auxiliary.base import AuxiliaryLoss
    from beacon.policy import DiffusionPolicy, Encoding, ObservationSpec

LOG = logging.getLogger(__name__)
Features = Literal["vision", "obs"]
Indices = NDArray[np.int64]
State = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Measurements:
    """What the present policy says of some windows, without gradients or augmentation."""

    losses: Tensor  # (B,) float32, mean over the noise draws
    vision: Tensor  # (B, V) embeddings of the images alone
    observation: Tensor  # (B, C) of the whole observation, proprioception included


class ReferencePolicy(Protocol):
    """A policy of the run's architecture: one that was trained apart and no longer changes, or the run's own
    as it is now.
    """

    @property
    def policy(self) -> DiffusionPolicy:
        """Its networks, in evaluation mode."""
        ...

    def measure(self, index: Indices, draws: int, number: int) -> Measurements:
        """As the context's ``measure``: with the same number, the same noise."""
        ...

    def actions(self, index: Indices) -> Tensor:
        """The action chunks of these windows as the policy sees them, normalised, (B, horizon, A)."""
        ...


def _no_references(name: str, members: Indices, steps: int) -> ReferencePolicy:
    raise NotImplementedError("whoever made this context trains no reference policies")


def _no_parts(index: Indices, rows: slice, draws: int, number: int) -> Measurements:
    raise NotImplementedError("whoever made this context is one process")


def _no_policy() -> ReferencePolicy:
    raise NotImplementedError("whoever made this context has no policy")


@dataclass(frozen=True, eq=False)
class MethodContext(DataContext):
    """Everything a method may need to know of the run."""

    epochs: int
    steps_per_epoch: int
    batch_size: int
    weight_decay: float  # of methods that do not set their own
    # (windows to measure, noise draws, a number that decides the noise) -> what the policy says of them
    measure: Callable[[Indices, int, int], Measurements]
    # R(θ) = ½‖θ‖² of the present policy
    capacity: Callable[[], float]
    # (name, windows, gradient steps) -> a policy trained on these windows alone, with the run's optimiser.
    # It is kept in the run folder under its name: whoever asks again, or resumes, gets the same one.
    fit_reference: Callable[[str, Indices, int], ReferencePolicy] = _no_references
    # Where several processes train together: the windows whose embeddings this one keeps.
    shard: Shard = WHOLE
    # (windows, rows of them that are of the shard, noise draws, number) -> as ``measure``, of the rows
    measure_part: Callable[[Indices, slice, int, int], Measurements] = _no_parts
    # The run's own policy, which the next gradient step changes.
    present_policy: Callable[[], ReferencePolicy] = _no_policy
    # Noise that training adds to the observations of every domain; None: none.
    missing_noise: MissingNoise | None = None
    # What the user is to know of the run when it begins.
    remark: Callable[[str], None] = LOG.info

    @cached_property
    def dynamics_gap(self) -> float | None:
        """How badly the target's motion fits a model of the source's, see `beacon.audit.dynamics_gap`.

        Readings of the source are as noisy as in training. None where the data do not tell.
        """
        from beacon.audit.dynamics_gap import dynamics_gap

        if self.missing_noise is None:
            return self.recorded_gap
        sets, lacking = self.windows.sets, self.missing_noise
        sources = [with_noise(sets[number], lacking.of(number)) for number in range(self.target)]
        return dynamics_gap(sources, sets[self.target])

    @cached_property
    def recorded_gap(self) -> float | None:
        """As `dynamics_gap`, of readings as they were recorded: other sensors count as another robot does."""
        from beacon.audit.dynamics_gap import dynamics_gap

        sets = self.windows.sets
        return dynamics_gap(sets[: self.target], sets[self.target])

    def measure_own(self, index: Indices, draws: int, number: int) -> Measurements:
        """As ``measure``, of those windows in ``index``, in ascending order, that are of the shard."""
        if self.shard.is_whole:
            return self.measure(index, draws, number)
        return self.measure_part(index, self.shard.part(index), draws, number)

    def fit_target_reference(self, share: float) -> ReferencePolicy:
        """A policy trained on the target alone, for ``share`` of the run's gradient steps."""
        steps = max(1, round(share * self.epochs * self.steps_per_epoch))
        return self.fit_reference(f"target-only-{steps}", self.target_windows, steps)


def choose_features(measured: Measurements | Encoding, features: Features) -> Tensor:
    """Embeddings of the images alone ("vision"), or of the whole observation ("obs")."""
    return measured.vision if features == "vision" else measured.observation


class Stateful(Protocol):
    """Whatever changes during a run."""

    def state_dict(self) -> State:
        """Everything that changes, as arrays."""
        ...

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        ...


def join_states(parts: Mapping[str, Stateful]) -> State:
    """The states of several parts as one, each name behind that of its part."""
    return {
        f"{part}/{name}": array
        for part, stateful in parts.items()
        for name, array in stateful.state_dict().items()
    }


def split_states(parts: Mapping[str, Stateful], state: Mapping[str, NDArray[Any]]) -> None:
    """The inverse of `join_states`: every part takes up its own."""
    own: dict[str, State] = {part: {} for part in parts}
    for name, array in state.items():
        part, _, rest = name.partition("/")
        if part not in own:
            raise UserError(f"the checkpoint belongs to another method or auxiliary loss: it has '{part}'")
        own[part][rest] = array
    for part, stateful in parts.items():
        stateful.load_state_dict(own[part])


@dataclass(frozen=True)
class EpochReport:
    """What a method did between two epochs, for the log."""

    scalars: Mapping[str, float] = field(default_factory=dict)
    # One number per window: what the run folder keeps as tables.
    weights: NDArray[np.float64] | None = None
    losses: NDArray[np.float64] | None = None
    discrepancies: NDArray[np.float64] | None = None


class Method(ABC):
    """A way to use source data. Subclasses answer the questions that the base class leaves plain."""

    needs_source: ClassVar[bool] = True
    needs_target: ClassVar[bool] = True
    revision: ClassVar[int] = 1  # one more when the same options mean other weights than before
    several_sources_revision: ClassVar[int] = 0  # added to it where there are several sources
    Options: ClassVar[type[Any]]  # frozen dataclass: what the command line offers for this method

    def __init__(self, options: Any, context: MethodContext) -> None:
        self.options, self.context = options, context
        if self.needs_source and not len(context.source_windows):
            raise UserError("this method needs source demonstrations; say --source FILE")
        if self.needs_target and not len(context.target_windows):
            raise UserError("this method needs target demonstrations; say --target FILE")

    @classmethod
    def default_options(cls) -> Any:
        """The options of a run that says none."""
        return cls.Options()

    @classmethod
    def default_auxiliary(cls) -> tuple[AuxiliaryLoss, ...]:
        """The auxiliary losses of a run that says none."""
        return ()

    @classmethod
    def check(cls, options: Any, *, epochs: int) -> None:
        """Refuse options that contradict the rest of the run, before any data is read."""
        return

    @classmethod
    def observation(cls, options: Any, spec: ObservationSpec) -> ObservationSpec:
        """What the policy of a run with these options sees and does; plain: what the data have."""
        return spec

    @abstractmethod
    def batches(self, epoch: int) -> Indices:
        """Windows of an epoch's mini-batches, (steps, batch): a function of seed, epoch and state alone."""

    def weights(self, index: Tensor) -> Tensor | None:
        """What each sample of a mini-batch weighs, (B,); None is one for all."""
        return None

    def noise_weights(self, index: Tensor, timesteps: Tensor) -> Tensor | None:
        """What the loss of each sample weighs at each of its noise levels, (draws, B); None is one for all.

        Args:
            index: windows of a mini-batch, (B,).
            timesteps: their diffusion steps, (draws, B), from 0 (no noise) on.
        """
        return None

    @property
    def wants_noise_losses(self) -> bool:
        """Whether `observe_noise` is called."""
        return False

    @property
    def mean_weight(self) -> float:
        """The mean of `weights` over a run; bounds on gradients are in units of it, the same for all."""
        return 1.0

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """A scalar that is added to the mini-batch loss; may be differentiated through the encoding."""
        return None

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor) -> None:
        """Called after every gradient step with what it computed, detached."""
        return

    def observe_noise(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """Called at every gradient step with its losses noise level by noise level, detached.

        Args:
            index: windows of the whole mini-batch, (B,).
            timesteps: their diffusion steps, (draws, B).
            losses: at each of them, (draws, B), not weighted.
        """
        return

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Called before every epoch, the first (0) included."""
        return None

    @property
    def weight_decay(self) -> float:
        """AdamW's weight decay during the coming epoch."""
        return self.context.weight_decay

    def state_dict(self) -> State:
        """Everything that changes, as arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if state:
            raise UserError("the checkpoint belongs to another method")
