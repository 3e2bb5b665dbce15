"""Do the actions of a demonstration explain the motion in it? A check of labels that needs no policy.

An action moves the robot, and proprioception records how. A linear model from motion to action, fitted on
the target, predicts the actions of sound demonstrations of any domain with the same robot; actions that were
mirrored, delayed or noisy on the way into the dataset do not fit the motion beside them, whatever the
images show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import EpisodeSet
from beacon.data.windows import Windows
from beacon.weighting.discrepancy import Discrepancy, DiscrepancyInputs, Estimator, as_discrepancy

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LAGS = 4  # steps of motion after an action: a controller takes some to follow
RIDGE = 1e-3  # of the mean squared feature
USUAL = 2.0  # misfits of the target's median demonstration that count as unremarkable
LARGEST = 5.0  # factor
LEAST = 0.1  # share of the variance of some action dimension that motion must explain
CONSTANT = 1e-6  # standard deviation of an action dimension, against the largest action


@dataclass(frozen=True)
class Motion:
    """Steps of a domain after which enough motion follows: features (S, F), actions (S, A)."""

    rows: NDArray[np.int64]  # (S,) frame of each step
    episode: NDArray[np.int64]  # (S,) of the set
    features: Matrix
    actions: Matrix

    @classmethod
    def of(cls, episodes: EpisodeSet) -> Motion:
        """The changes of all proprioception over each of the next `LAGS` steps."""
        state = np.concatenate([episodes.proprio[key] for key in sorted(episodes.proprio)], axis=1)
        usable = np.maximum(episodes.lengths - LAGS, 0)
        episode = np.repeat(np.arange(len(usable)), usable)
        first = np.cumsum(usable) - usable
        rows = episodes.starts[episode] + np.arange(len(episode)) - first[episode]
        change = np.diff(state.astype(np.float64), axis=0, append=state[-1:])  # across episodes: not used
        features = np.concatenate([change[rows + lag] for lag in range(LAGS)], axis=1)
        return cls(rows, episode, features, episodes.actions[rows].astype(np.float64))


def misfit_factors(windows: Windows, target: int) -> Vector | None:
    """How much worse than usual the actions of a window's demonstration explain its motion, (N,), from 1.

    The model is fitted on the target; the target's own misfit is found by leaving each of its demonstrations
    out in turn. Action dimensions count by how well motion explains them there, those that are constant not
    at all. A demonstration has the root mean square over its steps, in units of `USUAL` times what the
    target's demonstrations have in the median.

    None where the target cannot tell: no proprioception, no two demonstrations of more than `LAGS` steps, or
    its motion does not explain its actions.
    """
    yardstick = windows.sets[target]
    if not yardstick.proprio or np.count_nonzero(yardstick.lengths > LAGS) < 2:
        return None
    motions = [Motion.of(one) for one in windows.sets]
    trusted = motions[target]
    left_out = _leave_one_out(trusted)
    spread = trusted.actions.std(axis=0)
    varies = spread > CONSTANT * np.abs(trusted.actions).max()
    spread = spread + 1e-12
    noise = np.sqrt(np.mean(left_out**2, axis=0))
    explained = np.where(varies, np.clip(1 - (noise / spread) ** 2, 0, 1), 0.0)
    if explained.max() < LEAST:
        return None
    noise = np.maximum(noise, 1e-3 * spread)
    share = explained / explained.sum()
    model = _fit(trusted)
    misfits = []  # of every demonstration, domain after domain
    for domain, (motion, episodes) in enumerate(zip(motions, windows.sets, strict=True)):
        own = domain == target
        residual = left_out if own else motion.actions - _predict(model, trusted, motion.features)
        misfits.append(_over_demos((residual / noise) ** 2 @ share, motion.episode, len(episodes)))
    usual = USUAL * np.nanmedian(misfits[target])
    factors = np.clip(np.nan_to_num(np.concatenate(misfits) / usual, nan=1.0), 1.0, LARGEST)
    return np.asarray(factors[windows.episode])


class MotionChecked:
    """An estimator whose discrepancies are multiplied by `misfit_factors`."""

    def __init__(self, base: Estimator, factors: Vector) -> None:
        self._base = base
        self._factors = factors  # (m,) of the source samples
        self.constant = getattr(base, "constant", False)

    def __call__(self, inputs: DiscrepancyInputs) -> Discrepancy:
        found = as_discrepancy(self._base(inputs))
        checked = {"action_misfit": float(self._factors.mean())}
        return Discrepancy(found.values * self._factors, {**found.diagnostics, **checked})


def _fit(motion: Motion, use: NDArray[np.bool_] | None = None) -> tuple[Vector, Matrix]:
    """Mean action and coefficients (F, A) of a ridge regression."""
    x, y = (motion.features, motion.actions) if use is None else (motion.features[use], motion.actions[use])
    scale = _scale(motion)
    x = x / scale
    mean = y.mean(axis=0)
    gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    return mean, np.linalg.solve(gram, x.T @ (y - mean))


def _predict(model: tuple[Vector, Matrix], trusted: Motion, features: Matrix) -> Matrix:
    return model[0] + (features / _scale(trusted)) @ model[1]


def _scale(motion: Motion) -> Vector:
    return np.asarray(np.sqrt(np.mean(motion.features**2, axis=0)) + 1e-12)


def _leave_one_out(motion: Motion) -> Matrix:
    """What is left of each demonstration's actions by a model of the other demonstrations, (S, A)."""
    left = np.zeros_like(motion.actions)
    for episode in np.unique(motion.episode):
        mine = motion.episode == episode
        left[mine] = motion.actions[mine] - _predict(_fit(motion, ~mine), motion, motion.features[mine])
    return left


def _over_demos(squares: Vector, episode: NDArray[np.int64], demos: int) -> Vector:
    """Root mean square over the steps of every demonstration, (demos,); nan where there is none."""
    totals, steps = np.bincount(episode, squares, demos), np.bincount(episode, minlength=demos)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(totals / steps))
