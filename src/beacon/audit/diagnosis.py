"""What would make the actions of a demonstration fit its motion? Shifts, signs, factors, swaps, offsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from beacon.audit.dynamics_model import DynamicsModel, DynamicsOptions, Matrix, motion_features, scale_factor
from beacon.audit.evidence import Evidence, Repair
from beacon.audit.recordings import Recording

DYNAMICS = "inverse-dynamics"  # name of the check of actions against motion


def diagnose(
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
    factor = scale_factor(recorded, predicted, model)
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
