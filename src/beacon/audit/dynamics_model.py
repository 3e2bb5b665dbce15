"""The model of motion and action: a linear map from the motion after a step to the action at that step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from beacon.audit.calibration import CalibrationOptions
from beacon.audit.evidence import Matrix, Vector
from beacon.audit.recordings import Recording

SLOWER = (2, 3)  # times as many steps of motion as usual, for robots that follow slowly
CLEARLY_BETTER = 0.05  # by how much the logarithm of the noise must fall for that


@dataclass(frozen=True)
class DynamicsOptions:
    """Options of the check of actions against motion."""

    # Steps of motion after an action that the model sees: a controller takes some to follow.
    lags: int = 4
    # Of the regression, as a share of the mean squared feature.
    ridge: float = 1e-3
    # Share of the variance of some action dimension that motion must explain in sound demonstrations.
    least_explained: float = 0.1
    # Standard deviation, against the largest action, below which an action dimension is constant.
    constant: float = 1e-6
    # Largest shift in time that is tried, in steps.
    largest_lag: int = 12
    # Misfit of the best part of a set, in units of the target's, from which on it is said of the whole set.
    usual_misfit: float = 1.5
    # Demonstrations of a set from which on its own sound part is the yardstick.
    enough: int = 10
    # How the sound part is found.
    calibration: CalibrationOptions = field(default_factory=CalibrationOptions)


@dataclass(frozen=True, eq=False)
class DynamicsModel:
    """A linear model from motion to action, and what misfit is usual."""

    mean: Vector  # (A,)
    coefficients: Matrix  # (F, A)
    feature_scale: Vector  # (F,)
    noise: Vector  # (A,) root mean square residual of sound demonstrations
    share: Vector  # (A,) of each dimension in the misfit; 0 for those that motion does not explain
    lags: int

    def predict(self, features: Matrix) -> Matrix:
        """Actions (S, A) that explain the motion."""
        return self.mean + (features / self.feature_scale) @ self.coefficients

    def misfit(self, actions: Matrix, predicted: Matrix) -> float:
        """Root mean square over steps and dimensions, in units of the noise."""
        if not len(actions):
            return 1.0
        return float(np.sqrt((np.square(actions - predicted) @ self._weights).sum() / len(actions)))

    @cached_property
    def _weights(self) -> Vector:
        """Of squared differences in the misfit, (A,)."""
        return self.share / self.noise**2


def motion_features(recording: Recording, lags: int) -> Matrix:
    """Changes of the state over each of the next ``lags`` steps, (T − lags, lags · D)."""
    change = np.diff(recording.state.astype(np.float64), axis=0)
    steps = len(recording.state) - lags
    if steps < 1:
        return np.zeros((0, lags * recording.state.shape[1]))
    return np.concatenate([change[lag : lag + steps] for lag in range(lags)], axis=1)


def fit_model(
    recordings: list[Recording], options: DynamicsOptions
) -> tuple[DynamicsModel, list[Matrix]] | None:
    """A model of sound demonstrations, and for each what models of the others predict; None where they
    cannot tell.

    Args:
        recordings: sound demonstrations.
        options: of the check.
    """
    if not recordings or not recordings[0].state.shape[1]:
        return None
    features = [motion_features(r, options.lags) for r in recordings]
    if sum(len(rows) > 1 for rows in features) < 2:
        return None
    actions = [r.actions[: len(f)].astype(np.float64) for r, f in zip(recordings, features, strict=True)]
    scale = np.sqrt(np.mean(np.concatenate(features) ** 2, axis=0)) + 1e-12
    grams = [(f / scale).T @ (f / scale) for f in features]
    sums = [a.sum(axis=0) for a in actions]
    crosses = [(f / scale).T @ a for f, a in zip(features, actions, strict=True)]
    column_sums = [(f / scale).sum(axis=0) for f in features]
    counts = [len(a) for a in actions]
    total = (sum(grams), sum(crosses), sum(column_sums), sum(sums), sum(counts))

    def solve(left_out: int | None) -> tuple[Vector, Matrix]:
        gram, cross, columns, sum_, count = total
        if left_out is not None:
            gram, cross = gram - grams[left_out], cross - crosses[left_out]
            columns, sum_ = columns - column_sums[left_out], sum_ - sums[left_out]
            count = count - counts[left_out]
        mean = sum_ / count
        ridge = options.ridge * count * np.eye(len(scale))
        return mean, np.linalg.solve(gram + ridge, cross - np.outer(columns, mean))

    predicted = []
    for number, f in enumerate(features):
        mean, coefficients = solve(number)
        predicted.append(mean + (f / scale) @ coefficients)
    residuals = [a - p for a, p in zip(actions, predicted, strict=True)]
    everything = np.concatenate(actions)
    spread = everything.std(axis=0)
    varies = spread > options.constant * max(float(np.abs(everything).max()), 1e-12)
    noise = np.sqrt(np.mean(np.concatenate(residuals) ** 2, axis=0))
    explained = np.where(varies, np.clip(1 - (noise / (spread + 1e-12)) ** 2, 0, 1), 0.0)
    if explained.max() < options.least_explained:
        return None
    mean, coefficients = solve(None)
    model = DynamicsModel(
        mean,
        coefficients,
        scale,
        np.maximum(noise, 1e-3 * (spread + 1e-12)),
        explained / explained.sum(),
        options.lags,
    )
    return model, predicted


def follow_slowly(target: list[Recording], options: DynamicsOptions) -> DynamicsOptions:
    """Options with as many steps of motion as the target's robot takes to follow its actions.

    A model that sees too few of them takes an action for its neighbours in time. More steps are taken where
    target demonstrations, each predicted by a model of the others, have clearly less noise with them.

    Args:
        target: sound demonstrations.
        options: with the usual number of steps, which remains where it does as well.
    """
    tried = [replace(options, lags=times * options.lags) for times in (1, *SLOWER)]
    noises = [_noise_of_left_out(target, each, tried[-1].lags) for each in tried]
    if noises[0] is None:
        return options
    usual, share = noises[0]
    logs = [
        np.inf if noise is None else float(share @ np.log((noise[0] + 1e-12) / (usual + 1e-12)))
        for noise in noises
    ]
    best = int(np.argmin(logs))
    return tried[best] if logs[best] < -CLEARLY_BETTER else options


def _noise_of_left_out(
    target: list[Recording], options: DynamicsOptions, last: int
) -> tuple[Vector, Vector] | None:
    """Root mean square residual of every action dimension, and its share in the misfit.

    Args:
        target: sound demonstrations.
        options: of the model.
        last: steps at the end that are left out, so that all models are compared on the same ones.
    """
    kept = [r for r in target if len(r.state) > last + 1]
    fitted = fit_model(kept, options)
    if fitted is None:
        return None
    residuals = [
        r.actions[: len(r.state) - last] - predicted[: len(r.state) - last]
        for r, predicted in zip(kept, fitted[1], strict=True)
    ]
    return np.sqrt(np.mean(np.concatenate(residuals) ** 2, axis=0)), fitted[0].share


def beside(recording: Recording, model: DynamicsModel) -> tuple[Matrix, Matrix]:
    """Recorded actions and those that explain the motion, (S, A) each."""
    predicted = model.predict(motion_features(recording, model.lags))
    return recording.actions[: len(predicted)].astype(np.float64), predicted


def scale_factor(
    recorded: Matrix, predicted: Matrix, model: DynamicsModel, dimensions: Sequence[int] | None = None
) -> float:
    """One factor for all dimensions that motion explains: a wrong unit, not seven of them.

    Args:
        recorded: actions (S, A').
        predicted: actions that explain the motion (S, A').
        model: of motion and action.
        dimensions: which ones the A' are; None: all.
    """
    weight = model.share / model.noise**2
    if dimensions is not None:
        weight = weight[list(dimensions)]
    above = float(((recorded * predicted).sum(axis=0) * weight).sum())
    below = float(((predicted * predicted).sum(axis=0) * weight).sum())
    return float(np.clip(above / below, 0.05, 20)) if below > 0 else 1.0
