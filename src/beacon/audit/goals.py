"""Does a demonstration go where its first picture says? A wrong goal or object shows here.

Where the robot will be after a part of the episode is predicted from the first picture and state, by
demonstrations of other folds. A demonstration that goes elsewhere pursues another goal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beacon.audit.evidence import Evidence, Vector, evidence_from_scores
from beacon.audit.look_alikes import robust_scores
from beacon.audit.recordings import Recording
from beacon.audit.regression import Matrix, cross_fitted_residuals, principal_components

CHECK = "goals"


@dataclass(frozen=True)
class GoalOptions:
    """Options of the check of goals."""

    # Moments of an episode at which the robot's state is predicted.
    moments: tuple[float, ...] = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
    # Principal components of the first pictures.
    components: int = 48
    # Of the regression.
    ridge: float = 3e-2
    # Demonstrations, at least.
    enough: int = 20
    # Robust standard deviations above the median from which on something is said.
    least_score: float = 2.0


def check_goals(
    recordings: list[Recording], options: GoalOptions
) -> tuple[Vector, list[Evidence], str | None]:
    """Scores in robust standard deviations, (demos,), evidence, and a remark about the set."""
    nothing = np.zeros(len(recordings))
    if len(recordings) < options.enough:
        return nothing, [], f"{len(recordings)} demonstrations are too few to tell where one should go"
    if not recordings[0].first_picture.size or not recordings[0].state.shape[1]:
        return nothing, [], "without pictures and proprioception nothing tells where one should go"
    residuals, centre, explained = predict_ways(recordings, options)
    # Only what the pictures explain can be wrong: dimensions count by their explained variance.
    if explained.max() < 0.1:
        return nothing, [], "first pictures do not tell where the robot goes"
    share = explained / explained.sum()
    misfits = np.sqrt((residuals / np.maximum(centre, 1e-6)) ** 2 @ share)
    scores = robust_scores(np.log(misfits + 1e-9))
    usual = float(np.median(misfits))

    def words(number: int) -> str:
        return (
            "moves towards another object or goal than demonstrations that look alike "
            f"({misfits[number] / usual:.1f} × as far off as is usual)"
        )

    evidence = evidence_from_scores(CHECK, "another goal", scores, options.least_score, words)
    return scores, evidence, None


def predict_ways(recordings: list[Recording], options: GoalOptions) -> tuple[Matrix, Vector, Vector]:
    """How well first pictures and states tell where the robot goes.

    Args:
        recordings: with pictures and proprioception.
        options: which moments of the way, and of the regression.

    Returns:
        Residuals of cross-fitted predictions of all moments and dimensions (demos, W), in standard
        deviations; their median size (W,); the share of the variance that is explained (W,), 1 for constants.
    """
    pictures = np.stack([r.first_picture for r in recordings]).astype(np.float64)
    starts = np.stack([r.state[0] for r in recordings]).astype(np.float64)
    starts = 0.1 * (starts - starts.mean(axis=0)) / (starts.std(axis=0) + 1e-6)
    features = np.concatenate([principal_components(pictures, options.components), starts], axis=1)
    ways = np.stack([_way(r, options.moments) for r in recordings])
    spread = ways.std(axis=0)
    ways = (ways - ways.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    numbers = np.arange(len(recordings))
    order = np.random.default_rng(0).permutation(len(recordings))
    residuals = cross_fitted_residuals(features, ways, order[numbers], ridge=options.ridge)
    centre = np.median(np.abs(residuals), axis=0)
    return residuals, centre, np.clip(1 - (1.4826 * centre) ** 2, 0, 1)


def _way(recording: Recording, moments: tuple[float, ...]) -> Vector:
    steps = np.round(np.array(moments) * (len(recording.state) - 1)).astype(np.int64)
    return np.asarray(recording.state[steps].astype(np.float64).reshape(-1))
