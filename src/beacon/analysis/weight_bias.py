"""What the weights of the source follow: phase, coverage, corruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.analysis.association import (
    Values,
    area_under_curve,
    phase_bins,
    spearman,
    variance_explained,
)


@dataclass(frozen=True)
class WeightBias:
    """How strongly source weights follow something; None where the data cannot tell."""

    phase: float | None = None  # share of the variance of window weights that the phase explains
    first_tenth: float | None = None  # mean weight in the first tenth of the demonstrations
    last_tenth: float | None = None
    coverage: float | None = None  # rank correlation with the distance to the nearest target demonstration
    corruption_auc: float | None = None  # probability that a sound demonstration outweighs a corrupted one


def weight_bias(
    weight: Values,
    phase: Values,
    demo_weight: Values,
    *,
    distance: Values | None = None,
    corruption: Sequence[str] | None = None,
) -> WeightBias:
    """Of the windows and demonstrations of the source.

    Args:
        weight: of every source window, (N,).
        phase: of every source window, in [0, 1], (N,).
        demo_weight: mean weight of every source demonstration, (E,).
        distance: of every source demonstration to the nearest target demonstration, (E,).
        corruption: what is known to be wrong with every source demonstration, "" for sound ones, (E,).
    """
    explained = variance_explained(weight, phase_bins(phase)) if len(weight) else None
    auc = None
    if corruption is not None:
        corrupted = np.array([bool(label) for label in corruption], dtype=bool)
        auc = area_under_curve(demo_weight[~corrupted], demo_weight[corrupted])
    return WeightBias(
        phase=explained,
        first_tenth=_mean(weight[phase <= 0.1]),
        last_tenth=_mean(weight[phase >= 0.9]),
        coverage=None if distance is None else spearman(demo_weight, distance),
        corruption_auc=auc,
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None
