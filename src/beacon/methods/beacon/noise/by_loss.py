"""g of every source demonstration, from its own losses at each noise level beside the target's.

Gradient steps compute the loss of a sample at several noise levels. Their running sums over a demonstration
are compared with what target windows of the same phase lose in the same bin at the same time of the run:

    r_eb = log( Σ ℓ / Σ baseline_b(φ) )        over the visits of demonstration e in bin b

The cost is the domain's median of r in the bin, and what the demonstration has beyond the usual spread around
it. A demonstration whose excess is at little noise alone teaches at much noise, where it fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, State
from beacon.methods.beacon.noise.base import (
    NOISE_LEVELS,
    BuiltNoiseLevels,
    Learned,
    Matrix,
    NoiseEvidence,
    Vector,
    refuse_by_name,
    solve_levels,
)
from beacon.methods.beacon.noise.coverage import coverage_of
from beacon.methods.option_checks import require_at_least, require_positive

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.weighting import BuiltCheck


@NOISE_LEVELS.register("by-loss")
@dataclass(frozen=True)
class ByLoss(Learned):
    """A demonstration teaches more at noise levels where it loses what the target loses, and less elsewhere.

    Where the target has no windows nearby, it teaches at all levels alike.
    """

    # Epochs after which what a gradient step said counts for 1/e.
    memory: float = 4.0
    # Parts that an episode is divided into for the target's losses.
    knots: int = 10
    # Differences between demonstrations of a domain, in its robust standard deviations, that count as noise.
    tolerance: float = 2.0
    # Visits of a demonstration in every bin, so that it is believed.
    least_visits: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_by_name(require_positive, memory=self.memory)
        refuse_by_name(require_at_least, 1, knots=self.knots)
        refuse_by_name(require_at_least, 0, tolerance=self.tolerance, least_visits=self.least_visits)

    def build(self, context: MethodContext, checks: Sequence[BuiltCheck]) -> BuiltNoiseLevels:
        """The g of one run."""
        return _ByLoss(self, context)


class _ByLoss(BuiltNoiseLevels):
    wants_losses: ClassVar[bool] = True

    def __init__(self, options: ByLoss, context: MethodContext) -> None:
        windows = context.windows
        episodes = windows.episode.astype(np.int64)
        super().__init__(context, options.bins, episodes, len(windows.episode_length))
        self._options, self._episodes = options, episodes
        self._on_target, self._phase = windows.domain == context.target, windows.phase.astype(np.float64)
        self.ledger = LossLedger(
            len(windows.episode_length),
            options.bins,
            options.knots,
            decay=math.exp(-1 / (options.memory * context.steps_per_epoch)),
        )
        self._waiting: list[tuple[Indices, Tensor, Tensor]] = []  # where the policy is; read once an epoch

    def observe(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """Keep what a gradient step has computed, without waiting for it."""
        self._waiting.append((index, timesteps, losses))

    def update(self, evidence: NoiseEvidence) -> dict[str, float]:
        """Weigh the levels of every demonstration anew."""
        self._read()
        options, context = self._options, self.context
        if evidence.epoch < self.first_epoch(options.begin):
            return {}
        excess, known = self.ledger.excess(options.least_visits)
        costs = np.zeros_like(excess)
        domain, scalars = context.windows.episode_domain, dict[str, float]()
        for number, name in enumerate(context.domains.sources):
            members = np.flatnonzero((domain == number) & known)
            if not len(members):
                continue
            costs[members] = robust_costs(excess[members], options.tolerance)
            medians = np.median(excess[members], axis=0)
            scalars |= {f"noise/{name}/excess_{place}": float(value) for place, value in enumerate(medians)}
        share = coverage_of(context, evidence.embeddings, options.neighbors, options.draws, evidence.epoch)
        self.set(solve_levels(costs, options.smoothness), share)
        return scalars | self.scalars()

    def state_dict(self) -> State:
        """Rows, κ, and the running sums."""
        self._read()
        return super().state_dict() | self.ledger.state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        super().load_state_dict(state)
        self.ledger.load_state_dict(state)
        self._waiting = []

    def _read(self) -> None:
        """Add what is waiting to the sums, step by step, in the order of the steps."""
        for index, timesteps, losses in self._waiting:
            self.ledger.add(
                self._episodes[index],
                self._phase[index],
                self._on_target[index],
                self.bin_of(timesteps.cpu().numpy().astype(np.int64)),
                losses.double().cpu().numpy(),
            )
        self._waiting = []


class LossLedger:
    """Running sums of losses: of the target by bin and phase, of demonstrations by bin, beside the target's.

    Args:
        demos: demonstrations of all domains.
        bins: of noise levels.
        knots: parts that an episode is divided into.
        decay: what is left of the sums after a step.
    """

    def __init__(self, demos: int, bins: int, knots: int, decay: float) -> None:
        self._decay, self._knots = decay, knots
        self.sums: dict[str, Matrix] = {
            "target": np.zeros((bins, knots + 1)),  # Σ loss near a knot of the phase, and its weight
            "target_mass": np.zeros((bins, knots + 1)),
            "own": np.zeros((demos, bins)),  # Σ loss of a demonstration, of the target in its place, visits
            "usual": np.zeros((demos, bins)),
            "visits": np.zeros((demos, bins)),
        }

    def add(
        self, episodes: Indices, phase: Vector, on_target: NDArray[np.bool_], bins: Indices, losses: Matrix
    ) -> None:
        """Take up a gradient step.

        Args:
            episodes: demonstration of every sample, (B,).
            phase: of every sample, 0 at the first step of its episode and 1 at the last, (B,).
            on_target: which samples are the target's, (B,).
            bins: of noise levels, (draws, B).
            losses: (draws, B).
        """
        for name, values in self.sums.items():
            self.sums[name] = values * self._decay
        self._add_target(phase[on_target], bins[:, on_target], losses[:, on_target])
        source = ~on_target
        usual = self._usual(phase[source], bins[:, source])
        known = np.isfinite(usual)
        demos = np.broadcast_to(episodes[source], usual.shape)
        count, width = self.sums["own"].shape
        place = (demos * width + bins[:, source])[known]
        for name, values in (("own", losses[:, source]), ("usual", usual), ("visits", np.ones(usual.shape))):
            added = np.bincount(place, values[known], count * width)
            self.sums[name] += added.reshape(count, width)

    def _add_target(self, phase: Vector, bins: Indices, losses: Matrix) -> None:
        centres = np.linspace(0, 1, self._knots + 1)
        nearness = np.maximum(0, 1 - self._knots * np.abs(phase[:, None] - centres))  # (n, knots + 1)
        for row, loss in zip(bins, losses, strict=True):
            np.add.at(self.sums["target"], row, nearness * loss[:, None])
            np.add.at(self.sums["target_mass"], row, nearness)

    def _usual(self, phase: Vector, bins: Indices) -> Matrix:
        """What target windows lose at these phases (B,) in these bins (draws, B); nan where none is known."""
        centres = np.linspace(0, 1, self._knots + 1)
        mass = self.sums["target_mass"]
        by_bin = np.full((len(mass), len(phase)), np.nan)
        for number, (total, weight) in enumerate(zip(self.sums["target"], mass, strict=True)):
            known = weight > 1e-9
            if known.any():
                by_bin[number] = np.interp(phase, centres[known], total[known] / weight[known])
        return np.asarray(np.take_along_axis(by_bin, bins, axis=0))

    def excess(self, least_visits: float) -> tuple[Matrix, NDArray[np.bool_]]:
        """The r of every demonstration in every bin, (demos, bins), and of which it is known in all bins."""
        own, usual, visits = (self.sums[name] for name in ("own", "usual", "visits"))
        known = (visits >= max(least_visits, 1e-9)).all(axis=1) & (own > 0).all(axis=1)
        known &= (usual > 0).all(axis=1)
        excess = np.zeros(own.shape)
        excess[known] = np.log(own[known] / usual[known])
        return excess, known

    def state_dict(self) -> State:
        """All sums."""
        return {name: values.copy() for name, values in self.sums.items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        for name, values in self.sums.items():
            if name not in state or np.shape(state[name]) != values.shape:
                raise UserError("the checkpoint belongs to other data or other noise levels")
            self.sums[name] = np.array(state[name], np.float64)


def robust_costs(excess: Matrix, tolerance: float) -> Matrix:
    """The median of every bin, and of a demonstration what it has beyond so many robust standard deviations.

    Args:
        excess: r of the demonstrations of a domain, (demos, bins).
        tolerance: how many.

    >>> robust_costs(np.array([[0.0, 1.0], [0.1, 1.0], [-0.1, 1.0], [2.0, 1.0]]), tolerance=0.0)[3]
    array([2., 1.])
    """
    from beacon.weighting.discrepancy.relative import NORMAL_MAD
    from beacon.weighting.solvers.projection import soft_threshold

    medians = np.median(excess, axis=0)
    apart = excess - medians
    usual = tolerance * NORMAL_MAD * np.median(np.abs(apart), axis=0)
    return np.asarray(medians + soft_threshold(apart, usual))
