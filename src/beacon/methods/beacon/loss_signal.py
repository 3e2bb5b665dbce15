"""What of the losses enters the weights: the loss itself, or what a window costs beyond what it must."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import MethodContext, State
from beacon.plain import Part
from beacon.registry import Registry

Vector = NDArray[np.float64]

LOSS_SIGNALS: Registry[type[LossSignal]] = Registry(
    "loss signal", "beacon.loss_signals", home="beacon.methods.beacon.loss_signal"
)


class BuiltLossSignal:
    """The loss signal of one run; the base class is the loss itself."""

    def __call__(self, losses: Vector) -> Vector:
        """What counts of every window's loss, (N,)."""
        return losses

    def state_dict(self) -> State:
        """Everything that changes, as arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        return


class LossSignal(Part, registry=LOSS_SIGNALS):
    """Options of a loss signal. Subclasses are frozen dataclasses."""

    def build(self, context: MethodContext) -> BuiltLossSignal:
        """The loss signal of one run."""
        raise NotImplementedError


@LOSS_SIGNALS.register("raw")
@dataclass(frozen=True)
class RawLoss(LossSignal):
    """The loss itself, as in the paper."""

    def build(self, context: MethodContext) -> BuiltLossSignal:
        """The loss itself."""
        return BuiltLossSignal()


@LOSS_SIGNALS.register("above-phase-baseline")
@dataclass(frozen=True)
class AbovePhaseBaseline(LossSignal):
    """What the loss has beyond the mean target loss at the same phase of the episode."""

    # Parts that an episode is divided into.
    knots: int = 10

    def __post_init__(self) -> None:
        if self.knots < 1:
            raise UserError(f"--loss-signal.knots {self.knots}: must be at least 1")

    def build(self, context: MethodContext) -> BuiltLossSignal:
        """The loss signal of one run."""
        return _AbovePhaseBaseline(self, context)


class _AbovePhaseBaseline(BuiltLossSignal):
    def __init__(self, options: AbovePhaseBaseline, context: MethodContext) -> None:
        self._knots, self._phase = options.knots, context.windows.phase
        self._on_target = context.windows.domain == context.target

    def __call__(self, losses: Vector) -> Vector:
        return losses - phase_baseline(losses, self._phase, self._on_target, self._knots)


@LOSS_SIGNALS.register("excess-over-target")
@dataclass(frozen=True)
class ExcessOverTarget(LossSignal):
    """The loss of a target-only policy minus the present one: large where actions are not the target's."""

    # Gradient steps of the target-only reference policy, as a share of the run's own.
    reference_share: float = 0.25
    # Noise draws per window of the reference, which is measured once.
    draws: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.reference_share <= 1:
            raise UserError(
                f"--loss-signal.reference-share {self.reference_share}: must be above 0 and at most 1"
            )
        if self.draws < 1:
            raise UserError(f"--loss-signal.draws {self.draws}: must be at least 1")

    def build(self, context: MethodContext) -> BuiltLossSignal:
        """The loss signal of one run."""
        return _ExcessOverTarget(self, context)


class _ExcessOverTarget(BuiltLossSignal):
    def __init__(self, options: ExcessOverTarget, context: MethodContext) -> None:
        self._options, self._context = options, context
        self._reference: Vector | None = None  # losses of the reference policy, (N,)

    def __call__(self, losses: Vector) -> Vector:
        if self._reference is None:
            policy = self._context.fit_target_reference(self._options.reference_share)
            everything = np.arange(len(self._context.windows))
            measured = policy.measure(everything, self._options.draws, 0)
            self._reference = measured.losses.double().cpu().numpy()
        return self._reference - losses

    def state_dict(self) -> State:
        return {} if self._reference is None else {"losses": self._reference.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        if state:
            self._reference = np.array(state["losses"], np.float64)


def phase_baseline(
    losses: Vector, phase: NDArray[np.float32], on_target: NDArray[np.bool_], knots: int = 10
) -> Vector:
    """The target's mean loss at the phase of every window, (N,).

    b(φ) interpolates linearly between knots c_0 .. c_K in [0, 1], at which it is the mean of the target
    losses under triangular weights as wide as the gap between knots:

        b(c_k) = Σ_j max(0, 1 − K|φ_j − c_k|) ℓ_j / Σ_j max(0, 1 − K|φ_j − c_k|)

    The diffusion loss follows the phase of the episode; ℓ_i − b(φ_i) compares a window with target windows
    of the same phase.

    Args:
        losses: ℓ, (N,).
        phase: φ, (N,), 0 at the first step of an episode and 1 at the last.
        on_target: which windows are the target's, (N,).
        knots: K, how many parts the episode is divided into.

    >>> phase = np.array([0.0, 0.5, 1.0, 0.25, 0.75])
    >>> phase_baseline(np.array([1.0, 2.0, 4.0, 9.0, 9.0]), phase, np.arange(5) < 3, knots=2)
    array([1. , 2. , 4. , 1.5, 3. ])
    """
    phases = np.asarray(phase, np.float64)
    centres = np.linspace(0, 1, knots + 1)
    nearness = np.maximum(0, 1 - knots * np.abs(phases[on_target][:, None] - centres))  # (n, K + 1)
    mass = nearness.sum(axis=0)
    known = mass > 1e-9  # a few short demonstrations may leave a knot without any
    means = (nearness.T @ losses[on_target])[known] / mass[known]
    return np.asarray(np.interp(phases, centres[known], means))
