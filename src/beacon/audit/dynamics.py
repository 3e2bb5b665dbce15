"""Do the actions of a demonstration fit its motion, and if not, what would make them fit?

The model is that of the check `inverse-dynamics`: a linear map from the motion after a step to the action at
that step, fitted on sound demonstrations. A demonstration whose actions do not fit is tried with its actions
shifted in time, with signs changed, rescaled, offset, or with two dimensions exchanged; what makes it fit is
the diagnosis.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from beacon.audit.evidence import Evidence, Repair, Vector, predictive_p_values
from beacon.audit.recordings import Recording

Matrix = NDArray[np.float64]
DYNAMICS = "inverse-dynamics"


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
    # Misfit, in units of the usual one, up to which nothing is said.
    usual_misfit: float = 1.5
    # A change explains a misfit where it removes so much of what is beyond the usual.
    explains: float = 0.6
    # Share of a set that is taken to be sound, at least: the best by the target's model.
    sound_share: float = 0.4
    # Demonstrations of a set from which on its own best part is the yardstick.
    enough: int = 10
    # Standard deviation of the logarithm of sound misfits, at least.
    least_spread: float = 0.1
    # p-value of a factor of the actions up to which it is said although they hardly misfit.
    suspicious: float = 0.01


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
        return float(np.sqrt(np.mean(((actions - predicted) / self.noise) ** 2 @ self.share)))


def motion_features(recording: Recording, lags: int) -> Matrix:
    """Changes of the state over each of the next ``lags`` steps, (T − lags, lags · D)."""
    change = np.diff(recording.state.astype(np.float64), axis=0)
    steps = len(recording.state) - lags
    if steps < 1:
        return np.zeros((0, lags * recording.state.shape[1]))
    return np.concatenate([change[lag : lag + steps] for lag in range(lags)], axis=1)


def fit_model(recordings: list[Recording], options: DynamicsOptions) -> tuple[DynamicsModel, Vector] | None:
    """A model of sound demonstrations, and their misfits by models of the others; None where they cannot
    tell.

    Args:
        recordings: sound demonstrations.
        options: of the check.
    """
    usable = [r for r in recordings if len(r.state) > options.lags + 1 and r.state.shape[1]]
    if len(usable) < 2:
        return None
    features = [motion_features(r, options.lags) for r in usable]
    actions = [r.actions[: len(f)].astype(np.float64) for r, f in zip(usable, features, strict=True)]
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

    residuals = []
    for number, (f, a) in enumerate(zip(features, actions, strict=True)):
        mean, coefficients = solve(number)
        residuals.append(a - mean - (f / scale) @ coefficients)
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
    misfits = [float(np.sqrt(np.mean((r / model.noise) ** 2 @ model.share))) for r in residuals]
    return model, np.array(misfits)


@dataclass(frozen=True)
class DynamicsResult:
    """Misfits of a set's demonstrations in units of the usual one, evidence, and what the set as a whole is
    like.
    """

    misfits: Vector  # (demos,); 1 is usual
    evidence: list[Evidence]
    remark: str | None  # about the whole set


def check_dynamics(
    recordings: list[Recording], target: list[Recording], options: DynamicsOptions
) -> DynamicsResult:
    """Compare actions with motion in every demonstration of a source set.

    The target's model ranks the demonstrations. The best ``sound_share`` of a large set are then the
    yardstick, so that a source with other dynamics is judged by its own. Where one and the same change makes
    the whole set fit the target's model, the whole set is wrong, and the target's model remains the
    yardstick.

    Args:
        recordings: of the set.
        target: of the target.
        options: of the check.
    """
    trusted = fit_model(target, options)
    nothing = np.ones(len(recordings))
    if trusted is None:
        return DynamicsResult(nothing, [], "the target's motion does not explain its actions: not checked")
    model, null = trusted
    misfits = np.array([_misfit(r, model) for r in recordings])
    best = float(np.quantile(misfits, options.sound_share / 2) / np.median(null))
    remark = None
    if best > options.usual_misfit:
        remark = f"actions move this robot otherwise than the target's (misfit {best:.1f} × the target's own)"
    if len(recordings) >= options.enough and not _is_wrong_as_a_whole(recordings, model, null, best, options):
        keep = np.argsort(misfits, kind="stable")[: max(2, round(options.sound_share * len(recordings)))]
        own = fit_model([recordings[k] for k in keep], options)
        if own is None:
            return DynamicsResult(nothing, [], remark)
        model, null = own
        misfits = np.array([_misfit(r, model) for r in recordings])
    usual = float(np.median(null))
    p_values = predictive_p_values(np.log(misfits + 1e-12), np.log(null + 1e-12), options.least_spread)
    factors, factor_p = _scale_factors(recordings, misfits, model, options)
    evidence = []
    for number, recording in enumerate(recordings):
        if misfits[number] > options.usual_misfit * usual:
            evidence.append(_diagnose(number, recording, model, usual, float(p_values[number]), options))
        elif factor_p[number] < options.suspicious and not 0.8 < factors[number] < 1.25:
            # Small actions hardly misfit: what is unusual is their size.
            p = float(factor_p[number])
            evidence.append(_diagnose(number, recording, model, usual, p, options, only_scale=True))
    return DynamicsResult(misfits / usual, evidence, remark)


def _scale_factors(
    recordings: list[Recording], misfits: Vector, model: DynamicsModel, options: DynamicsOptions
) -> tuple[Vector, Vector]:
    """How large the actions of every demonstration are against what its motion needs, and p-values.

    The null are the factors of the demonstrations that fit best.
    """
    factors = np.array([_factor(*_beside(recording, model), model) for recording in recordings])
    sound = np.argsort(misfits, kind="stable")[: max(2, round(options.sound_share * len(recordings)))]
    deviation = np.abs(np.log(factors) - np.median(np.log(factors[sound])))
    spread = max(1.4826 * float(np.median(deviation[sound])), options.least_spread / 2)
    from scipy.stats import t as student

    return factors, np.asarray(2 * student.sf(deviation / spread, len(sound) - 1))


def _beside(recording: Recording, model: DynamicsModel) -> tuple[Matrix, Matrix]:
    """Recorded actions and those that explain the motion, (S, A) each."""
    predicted = model.predict(motion_features(recording, model.lags))
    return recording.actions[: len(predicted)].astype(np.float64), predicted


def _factor(recorded: Matrix, predicted: Matrix, model: DynamicsModel) -> float:
    """One factor for all dimensions that motion explains: a wrong unit, not seven of them."""
    weight = model.share / model.noise**2
    above = float(((recorded * predicted).sum(axis=0) * weight).sum())
    below = float(((predicted * predicted).sum(axis=0) * weight).sum())
    return float(np.clip(above / below, 0.05, 20)) if below > 0 else 1.0


def _is_wrong_as_a_whole(
    recordings: list[Recording], model: DynamicsModel, null: Vector, best: float, options: DynamicsOptions
) -> bool:
    """Whether nearly all demonstrations need the same change to fit the target's model."""
    if best <= options.usual_misfit:
        return False
    usual = float(np.median(null))
    found = [_diagnose(n, r, model, usual, 0.0, options).repair for n, r in enumerate(recordings)]
    changes = [(r.kind, r.lag, r.signs, r.order) for r in found if r is not None and r.residual_after < 1.5]
    most = max((changes.count(change) for change in set(changes)), default=0)
    return most >= 0.9 * len(recordings)


def _misfit(recording: Recording, model: DynamicsModel) -> float:
    return model.misfit(*_beside(recording, model))


def _diagnose(
    demo: int,
    recording: Recording,
    model: DynamicsModel,
    usual: float,
    p: float,
    options: DynamicsOptions,
    *,
    only_scale: bool = False,
) -> Evidence:
    """The change of the actions that explains the misfit best, or the bare fact."""
    predicted = model.predict(motion_features(recording, model.lags))
    actions = recording.actions.astype(np.float64)
    before = model.misfit(actions[: len(predicted)], predicted) / usual
    candidates = [_try_scale(actions, predicted, model, usual, before)]
    if not only_scale:
        candidates += [
            _try_lag(actions, predicted, model, usual, before, options),
            _try_signs(actions, predicted, model, usual, before),
            _try_order(actions, predicted, model, usual, before),
            _try_offset(actions, predicted, model, usual, before),
        ]
    repairs = [repair for repair in candidates if repair is not None]
    best = min(repairs, key=lambda repair: repair.residual_after, default=None)
    removed = 0.0 if best is None else (before - best.residual_after) / max(before - 1.0, 1e-9)
    if best is None or (removed < options.explains and not only_scale):
        text = (
            f"actions do not fit the motion beside them (residual {before:.1f} × usual), for no simple reason"
        )
        return Evidence(DYNAMICS, "actions", demo, before, p, text)
    text = f"{_words(best)} (residual {before:.1f} × usual, {best.residual_after:.1f} × after correcting it)"
    return Evidence(DYNAMICS, best.kind, demo, before, p, text, repair=best)


def _words(repair: Repair) -> str:
    if repair.kind == "lag":
        late = "lag" if repair.lag > 0 else "lead"
        return f"actions {late} the motion by {abs(repair.lag)} steps"
    if repair.kind == "sign":
        flipped = [str(d) for d, sign in enumerate(repair.signs) if sign < 0]
        return f"action dimension {' and '.join(flipped)} is mirrored"
    if repair.kind == "scale":
        return f"actions are {np.median(repair.scale):.2g} times as large as the motion needs"
    if repair.kind == "permutation":
        moved = [str(d) for d, other in enumerate(repair.order) if other != d]
        return f"action dimensions {' and '.join(moved)} are swapped"
    return "actions have a constant offset"


def _try_lag(
    actions: Matrix,
    predicted: Matrix,
    model: DynamicsModel,
    usual: float,
    before: float,
    options: DynamicsOptions,
) -> Repair | None:
    best: tuple[float, int] | None = None
    for lag in range(-options.largest_lag, options.largest_lag + 1):
        first, last = max(0, -lag), min(len(predicted), len(actions) - lag)
        if lag == 0 or last - first < max(8, len(predicted) // 2):
            continue
        misfit = model.misfit(actions[first + lag : last + lag], predicted[first:last]) / usual
        if best is None or misfit < best[0]:
            best = (misfit, lag)
    return None if best is None else Repair("lag", before, best[0], lag=best[1])


def _try_signs(
    actions: Matrix, predicted: Matrix, model: DynamicsModel, usual: float, before: float
) -> Repair | None:
    recorded = actions[: len(predicted)]
    products = ((recorded - model.mean) * (predicted - model.mean)).sum(axis=0)
    signs = np.where((products < 0) & (model.share > 0.02), -1, 1)
    if (signs > 0).all():
        return None
    after = model.misfit(recorded * signs, predicted) / usual
    return Repair("sign", before, after, signs=tuple(signs.tolist()))


def _try_scale(
    actions: Matrix, predicted: Matrix, model: DynamicsModel, usual: float, before: float
) -> Repair | None:
    recorded = actions[: len(predicted)]
    factor = _factor(recorded, predicted, model)
    if not 0.05 < factor < 20 or 0.8 < factor < 1.25:
        return None
    scale = np.where(model.share > 0.02, factor, 1.0)
    after = model.misfit(recorded / scale, predicted) / usual
    return Repair("scale", before, after, scale=tuple(scale.tolist()))


def _try_order(
    actions: Matrix, predicted: Matrix, model: DynamicsModel, usual: float, before: float
) -> Repair | None:
    recorded = actions[: len(predicted)]
    explained = np.flatnonzero(model.share > 0.02)
    best: Repair | None = None
    for first, second in combinations(explained.tolist(), 2):
        order = list(range(actions.shape[1]))
        order[first], order[second] = second, first
        after = model.misfit(recorded[:, order], predicted) / usual
        if best is None or after < best.residual_after:
            best = Repair("permutation", before, after, order=tuple(order))
    return best


def _try_offset(
    actions: Matrix, predicted: Matrix, model: DynamicsModel, usual: float, before: float
) -> Repair | None:
    recorded = actions[: len(predicted)]
    offset = np.where(model.share > 0.02, (recorded - predicted).mean(axis=0), 0.0)
    after = model.misfit(recorded - offset, predicted) / usual
    return Repair("offset", before, after, offset=tuple(offset.tolist()))
