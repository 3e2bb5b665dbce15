"""Do the actions of a demonstration explain the motion in it? A check of actions that needs no policy.

An action moves the robot, and proprioception records how. A linear model from motion to action, fitted on
the target, predicts the actions of sound demonstrations of any domain with the same robot; actions that were
mirrored, delayed or noisy on the way into the dataset do not fit the motion beside them, whatever the
images show.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.weighting.checks.base import CHECKS, BuiltCheck, Check
from beacon.weighting.inputs import DiscrepancyWarning, PerSample, RefreshInputs
from beacon.weighting.validation import Ids, Vector, require

if TYPE_CHECKING:
    from beacon.data.context import DataContext
    from beacon.data.episodes import EpisodeSet
    from beacon.data.windows import Windows

Matrix = NDArray[np.float64]


@CHECKS.register("inverse-dynamics")
@dataclass(frozen=True)
class InverseDynamicsCheck(Check):
    """Compare a demonstration's actions with those that its motion implies, by a linear model of the target.

    The target's own misfit is measured by leaving each of its demonstrations out in turn. Action dimensions
    count by how well motion explains them there, those that are constant not at all. A demonstration has the
    root mean square over its steps, in units of ``usual_misfit`` times what the target's demonstrations have
    in the median. It needs the same robot and units in all domains.
    """

    # Steps of motion after an action that the model sees: a controller takes some to follow.
    lags: int = 4
    # Of the regression, as a share of the mean squared feature.
    ridge: float = 1e-3
    # Misfits of the target's median demonstration that count as unremarkable.
    usual_misfit: float = 2.0
    # Largest factor.
    largest_factor: float = 5.0
    # Share of the variance of some action dimension that motion must explain; below it the check says
    # nothing.
    least_explained: float = 0.1
    # Standard deviation, against the largest action, below which an action dimension is constant.
    constant: float = 1e-6
    # Whether to say so where the data cannot tell; without proprioception it is then an error.
    required: bool = False

    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        require(self.lags >= 1, "lags", "at least 1", self.lags)
        require(self.ridge > 0, "ridge", "above 0", self.ridge)
        require(self.usual_misfit > 0, "usual_misfit", "above 0", self.usual_misfit)
        require(self.largest_factor >= 1, "largest_factor", "at least 1", self.largest_factor)

    def build(self, context: DataContext) -> BuiltCheck | None:
        """The check of a run; None where the target cannot tell what is usual."""
        if context is None:
            raise ValueError(
                "checks: inverse-dynamics needs demonstrations, which a plain loop does not give"
            )
        if self.required and not context.windows.sets[context.target].proprio:
            raise UserError("there is no proprioception to check actions by; leave inverse-dynamics out")
        factors = misfit_factors(context.windows, context.target, self)
        if factors is not None:
            return _InverseDynamics(factors[context.source_windows])
        if self.required:
            warnings.warn(
                "the target's proprioception does not explain its actions (or there is but one "
                "demonstration); the check inverse-dynamics has no effect",
                DiscrepancyWarning,
                stacklevel=2,
            )
        return None


@dataclass(eq=False)
class _InverseDynamics(BuiltCheck):
    prior: Vector  # (m,)

    shards: ClassVar[bool] = True

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        return PerSample(self.prior, {"inverse_dynamics": float(self.prior.mean())})


@dataclass(frozen=True)
class Motion:
    """Steps of a domain after which enough motion follows: features (S, F), actions (S, A)."""

    rows: Ids  # (S,) frame of each step
    episode: Ids  # (S,) of the set
    features: Matrix
    actions: Matrix

    @classmethod
    def of(cls, episodes: EpisodeSet, lags: int) -> Motion:
        """The changes of all proprioception over each of the next ``lags`` steps."""
        state = np.concatenate([episodes.proprio[key] for key in sorted(episodes.proprio)], axis=1)
        usable = np.maximum(episodes.lengths - lags, 0)
        episode = np.repeat(np.arange(len(usable)), usable)
        first = np.cumsum(usable) - usable
        rows = episodes.starts[episode] + np.arange(len(episode)) - first[episode]
        change = np.diff(state.astype(np.float64), axis=0, append=state[-1:])  # across episodes: not used
        features = np.concatenate([change[rows + lag] for lag in range(lags)], axis=1)
        return cls(rows, episode, features, episodes.actions[rows].astype(np.float64))


def misfit_factors(windows: Windows, target: int, options: InverseDynamicsCheck) -> Vector | None:
    """How much worse than usual the actions of a window's demonstration explain its motion, (N,), from 1.

    None where the target cannot tell: no proprioception, no two demonstrations of more than ``lags`` steps,
    or its motion does not explain its actions.

    Args:
        windows: of all domains.
        target: number of the target domain.
        options: of the check.
    """
    yardstick = windows.sets[target]
    if not yardstick.proprio or np.count_nonzero(yardstick.lengths > options.lags) < 2:
        return None
    motions = [Motion.of(episodes, options.lags) for episodes in windows.sets]
    trusted = motions[target]
    left_out = _leave_one_out(trusted, options.ridge)
    spread = trusted.actions.std(axis=0)
    varies = spread > options.constant * np.abs(trusted.actions).max()
    spread = spread + 1e-12
    noise = np.sqrt(np.mean(left_out**2, axis=0))
    explained = np.where(varies, np.clip(1 - (noise / spread) ** 2, 0, 1), 0.0)
    if explained.max() < options.least_explained:
        return None
    noise = np.maximum(noise, 1e-3 * spread)
    share = explained / explained.sum()
    model = _fit(trusted, options.ridge)
    misfits = []  # of every demonstration, domain after domain
    for domain, (motion, episodes) in enumerate(zip(motions, windows.sets, strict=True)):
        own = domain == target
        residual = left_out if own else motion.actions - _predict(model, trusted, motion.features)
        misfits.append(_over_demos((residual / noise) ** 2 @ share, motion.episode, len(episodes)))
    usual = options.usual_misfit * np.nanmedian(misfits[target])
    relative = np.nan_to_num(np.concatenate(misfits) / usual, nan=1.0)
    return np.asarray(np.clip(relative, 1.0, options.largest_factor)[windows.episode])


def _fit(motion: Motion, ridge: float, use: NDArray[np.bool_] | None = None) -> tuple[Vector, Matrix]:
    """Mean action and coefficients (F, A) of a ridge regression."""
    x, y = (motion.features, motion.actions) if use is None else (motion.features[use], motion.actions[use])
    scale = _scale(motion)
    x = x / scale
    mean = y.mean(axis=0)
    gram = x.T @ x + ridge * len(x) * np.eye(x.shape[1])
    return mean, np.linalg.solve(gram, x.T @ (y - mean))


def _predict(model: tuple[Vector, Matrix], trusted: Motion, features: Matrix) -> Matrix:
    return model[0] + (features / _scale(trusted)) @ model[1]


def _scale(motion: Motion) -> Vector:
    return np.asarray(np.sqrt(np.mean(motion.features**2, axis=0)) + 1e-12)


def _leave_one_out(motion: Motion, ridge: float) -> Matrix:
    """What is left of each demonstration's actions by a model of the other demonstrations, (S, A)."""
    left = np.zeros_like(motion.actions)
    for episode in np.unique(motion.episode):
        own = motion.episode == episode
        left[own] = motion.actions[own] - _predict(_fit(motion, ridge, ~own), motion, motion.features[own])
    return left


def _over_demos(squares: Vector, episode: Ids, demos: int) -> Vector:
    """Root mean square over the steps of every demonstration, (demos,); nan where there is none."""
    totals, steps = np.bincount(episode, squares, demos), np.bincount(episode, minlength=demos)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(totals / steps))
