"""Weights that depend on the noise level: q_i(t) = q_i · g_i(t), with a mean of one over all levels.

Noise levels are divided into a few bins of equal width. A source window has a row of g, one number a bin:

    g_ib = 1 + κ_i (G_{r(i)b} − 1),   G_r = argmin  Σ_b G_b c_rb + σ Σ_b G_b²   with  G ≥ 0,  mean_b G_b = 1

c are costs of a group r of windows, a domain or a demonstration, and κ_i, between 0 and 1, is how much of the
group's row holds for the window. Rows have a mean of one, so what a window weighs over all levels is q_i, and
the budget stays what it was. Windows of the target have ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.devices import upload
from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, State
from beacon.methods.option_checks import require_at_least, require_positive, require_within
from beacon.plain import Part
from beacon.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.weighting import BuiltCheck

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NOISE_LEVELS: Registry[type[NoiseLevels]] = Registry(
    "way to weigh noise levels", "beacon.noise_levels", home="beacon.methods.beacon.noise"
)


class NoiseLevels(Part, registry=NOISE_LEVELS):
    """Options of weights by noise level. Subclasses are frozen dataclasses."""

    def build(self, context: MethodContext, checks: Sequence[BuiltCheck]) -> BuiltNoiseLevels | None:
        """The weights of one run; None: all levels alike.

        Args:
            context: of the run.
            checks: those of the run, which may be told that a demonstration is forgiven.
        """
        raise NotImplementedError


@NOISE_LEVELS.register("all-alike")
@dataclass(frozen=True)
class AllAlike(NoiseLevels):
    """A weight is the same at every noise level, as in the paper."""

    def build(self, context: MethodContext, checks: Sequence[BuiltCheck]) -> BuiltNoiseLevels | None:
        """Nothing."""
        return None


@dataclass(frozen=True)
class Binned(NoiseLevels):
    """What all other ways have in common."""

    # Bins of noise levels, all of one width.
    bins: int = 4
    # How strongly a row is drawn to one, σ: a cost that is larger by 2σ than the mean over bins is silence.
    smoothness: float = 0.25

    def __post_init__(self) -> None:
        refuse_by_name(require_at_least, 2, bins=self.bins)
        refuse_by_name(require_positive, smoothness=self.smoothness)


@dataclass(frozen=True)
class Learned(Binned):
    """Ways that learn beside the policy, with the coverage of the target."""

    # Share of the run after which the first evidence counts; before, all levels are alike.
    begin: float = 0.25
    # Coverage: windows that are nearest to a source window, of the target and of as many source
    # demonstrations, and how often the latter are drawn.
    neighbors: int = 10
    draws: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_by_name(require_within, 0, 1, begin=self.begin)
        refuse_by_name(require_at_least, 1, neighbors=self.neighbors, draws=self.draws)


def refuse_by_name(require: Any, *bounds: float, **values: float) -> None:
    """Options of a part have its name before their own."""
    require(*bounds, **{f"noise_levels.{name}": value for name, value in values.items()})


@dataclass(frozen=True, eq=False)
class NoiseEvidence:
    """What a refresh knows.

    Args:
        epoch: before which it is.
        embeddings: of all windows, (N, F), as the discrepancy sees them.
    """

    epoch: int
    embeddings: Tensor


class BuiltNoiseLevels:
    """g of one run.

    Args:
        context: of the run.
        bins: of noise levels.
        groups: number of the row of every window, (N,); of target windows it does not matter.
        rows: how many rows there are.
    """

    wants_losses: ClassVar[bool] = False  # of every gradient step, noise level by noise level

    def __init__(self, context: MethodContext, bins: int, groups: Indices, rows: int) -> None:
        self.context, self.bins = context, bins
        self.levels = context.present_policy().policy.config.train_timesteps
        self.rows: Matrix = np.ones((rows, bins))
        self.share: Vector = np.zeros(len(context.windows))  # κ
        self._groups = groups
        self._says_nothing = True
        self._on_device: tuple[Tensor, Tensor, Tensor] | None = None
        if self.levels % bins:  # bins of one width, so that a mean over bins is one over levels
            raise UserError(
                f"--noise-levels.bins {bins}: must divide the {self.levels} noise levels of the policy"
            )

    def weights(self, index: Tensor, timesteps: Tensor) -> Tensor | None:
        """The g of some windows (B,) at their diffusion steps (draws, B); None: one for all."""
        if self._says_nothing:
            return None
        rows, share, groups = self._uploaded(timesteps.device)
        chosen = index.to(timesteps.device)
        told = rows[groups[chosen].unsqueeze(0), self.bin_of(timesteps)]
        return 1 + share[chosen] * (told - 1)

    def first_epoch(self, begin: float) -> int:
        """The first epoch at or after this share of the run."""
        return round(begin * self.context.epochs)

    def bin_of(self, timesteps: Any) -> Any:
        """The bin of diffusion steps, of any shape."""
        return timesteps * self.bins // self.levels

    def observe(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """See what a gradient step has computed at each noise level; only where losses are wanted."""
        return

    def update(self, evidence: NoiseEvidence) -> dict[str, float]:
        """Called at every refresh; what is worth logging."""
        return {}

    def set(self, rows: Matrix, share: Vector) -> None:
        """Take up rows (R, bins) and κ of all windows (N,); the target's is set to zero."""
        self.rows, self.share = rows, share.copy()
        self.share[self.context.target_windows] = 0.0
        self._says_nothing, self._on_device = not self.share.any(), None

    def scalars(self) -> dict[str, float]:
        """Mean g of every source in every bin, from little noise to much."""
        windows, said = self.context.windows, dict[str, float]()
        for number, name in enumerate(self.context.domains.sources):
            members = np.flatnonzero(windows.domain == number)
            g = 1 + self.share[members, None] * (self.rows[self._groups[members]] - 1)
            said |= {f"noise/{name}/bin_{place}": float(mean) for place, mean in enumerate(g.mean(axis=0))}
            said[f"noise/{name}/share"] = float(self.share[members].mean())
        return said

    def state_dict(self) -> State:
        """Rows and κ."""
        return {"rows": self.rows.copy(), "share": self.share.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        shapes = {"rows": self.rows.shape, "share": self.share.shape}
        if any(name not in state or np.shape(state[name]) != shape for name, shape in shapes.items()):
            raise UserError("the checkpoint belongs to other data or other noise levels")
        self.set(np.array(state["rows"], np.float64), np.array(state["share"], np.float64))

    def _uploaded(self, device: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, κ and groups where the policy is: once, so that no step waits."""
        import torch

        if self._on_device is None or self._on_device[0].device != device:
            rows, share = (torch.from_numpy(part.astype(np.float32)) for part in (self.rows, self.share))
            groups = torch.from_numpy(self._groups.astype(np.int64))
            self._on_device = (upload(rows, device), upload(share, device), upload(groups, device))
        return self._on_device


def solve_levels(costs: Matrix, smoothness: float) -> Matrix:
    """Rows with a mean of one that minimise Σ_b G_b c_b + σ Σ_b G_b² over G ≥ 0, for costs (R, bins).

    The solver is the one of the weights: a bin is a sample, the budget of a row is its number of bins.

    Args:
        costs: of every row in every bin.
        smoothness: σ.

    >>> solve_levels(np.array([[0.0, 0.0], [0.2, 0.0], [3.0, 0.0]]), smoothness=0.25)
    array([[1. , 1. ],
           [0.8, 1.2],
           [0. , 2. ]])
    """
    from beacon.weighting.objective import Strengths
    from beacon.weighting.problem import WeightProblem
    from beacon.weighting.solvers.minimiser import minimise

    strengths = Strengths(lambda_d=0.0, lambda_1=0.0, lambda_2=smoothness, gamma=0.0)
    bins = costs.shape[1]
    zeros, most = np.zeros(bins), np.full(bins, float(bins))
    return np.array(
        [minimise(WeightProblem(row, zeros, zeros, most, float(bins), strengths)).q for row in costs]
    ).reshape(costs.shape)
