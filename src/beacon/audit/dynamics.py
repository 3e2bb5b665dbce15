"""Do the actions of a demonstration fit its motion, and if not, what would make them fit?

The model is that of the check `inverse-dynamics`: a linear map from the motion after a step to the action at
that step, fitted on sound demonstrations. A demonstration whose actions do not fit is tried with its actions
shifted in time, with signs changed, rescaled, offset, or with two dimensions exchanged; what makes it fit is
the diagnosis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.audit.diagnosis import diagnose
from beacon.audit.dynamics_model import (
    DynamicsModel,
    DynamicsOptions,
    beside,
    fit_model,
    misfit_of,
    scale_factor,
)
from beacon.audit.evidence import Evidence, Vector, predictive_p_values, untruncated
from beacon.audit.recordings import Recording


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
    log_null = np.log(null + 1e-12)
    misfits = np.array([misfit_of(r, model) for r in recordings])
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
        log_null = untruncated(np.log(null + 1e-12), options.sound_share)
        misfits = np.array([misfit_of(r, model) for r in recordings])
    usual = float(np.median(null))
    p_values = predictive_p_values(np.log(misfits + 1e-12), log_null, options.least_spread)
    factors, factor_p = _scale_factors(recordings, misfits, model, options)
    evidence = []
    for number, recording in enumerate(recordings):
        if misfits[number] > options.usual_misfit * usual:
            evidence.append(diagnose(number, recording, model, usual, float(p_values[number]), options))
        elif factor_p[number] < options.suspicious and not 0.8 < factors[number] < 1.25:
            # Small actions hardly misfit: what is unusual is their size.
            p = float(factor_p[number])
            evidence.append(diagnose(number, recording, model, usual, p, options, only_scale=True))
    return DynamicsResult(misfits / usual, evidence, remark)


def _scale_factors(
    recordings: list[Recording], misfits: Vector, model: DynamicsModel, options: DynamicsOptions
) -> tuple[Vector, Vector]:
    """How large the actions of every demonstration are against what its motion needs, and p-values.

    The null are the factors of the demonstrations that fit best.
    """
    factors = np.array([scale_factor(*beside(recording, model), model) for recording in recordings])
    sound = np.argsort(misfits, kind="stable")[: max(2, round(options.sound_share * len(recordings)))]
    deviation = np.abs(np.log(factors) - np.median(np.log(factors[sound])))
    spread = max(1.4826 * float(np.median(deviation[sound])), options.least_spread / 2)
    from scipy.stats import t as student

    return factors, np.asarray(2 * student.sf(deviation / spread, len(sound) - 1))


def _is_wrong_as_a_whole(
    recordings: list[Recording], model: DynamicsModel, null: Vector, best: float, options: DynamicsOptions
) -> bool:
    """Whether nearly all demonstrations need the same change to fit the target's model."""
    if best <= options.usual_misfit:
        return False
    usual = float(np.median(null))
    repairs = [diagnose(n, r, model, usual, 0.0, options).repair for n, r in enumerate(recordings)]
    changes = [(r.kind, r.lag, r.signs, r.order) for r in repairs if r is not None and r.residual_after < 1.5]
    most = max((changes.count(change) for change in set(changes)), default=0)
    return most >= 0.9 * len(recordings)
