"""What the weights may be: the bounds of each, what they sum to, and where they begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from beacon.analysis import effective_sample_size
from beacon.weighting.config import WeightingConfig
from beacon.weighting.samples import Samples
from beacon.weighting.validation import Vector, non_negative_vector


def weight_bounds(config: WeightingConfig, samples: Samples) -> tuple[Vector, Vector]:
    """The smallest and the largest weight of every sample.

    Args:
        config: of the weighting.
        samples: who they are.
    """
    on_target = samples.on_target
    lower = np.where(on_target, config.q_target_min, 0.0)
    upper = np.where(on_target, _largest_on_target(config, samples), config.q_max)
    return lower, upper


def update_upper_bounds(config: WeightingConfig, samples: Samples, upper: Vector, q: Vector | None) -> None:
    """Set the largest weight of every target sample, given the weights of the last refresh.

    Only the natural share of the target looks at them: where some of the source has faded, the rest weighs
    more, and so may the target. The number of source samples that have kept their weight is the effective
    sample size (Σq)²/Σq² of the source.

    Args:
        config: of the weighting.
        samples: who they are.
        upper: the largest weights, from `weight_bounds`; changed in place.
        q: the weights of the last refresh; None before the first.
    """
    if not config.is_natural:
        return
    kept = None if q is None else effective_sample_size(q[~samples.on_target])
    # Without any weight on the source, as before the first refresh.
    upper[samples.on_target] = config.largest_on_target(*_counts(samples), kept or None)


def weight_budget(config: WeightingConfig, samples: Samples) -> float:
    """What all weights sum to, n + α·m; a ValueError where the bounds do not allow it.

    Args:
        config: of the weighting.
        samples: who they are.
    """
    targets, sources = _counts(samples)
    budget = targets + config.alpha * sources
    cap = config.q_max
    if len(samples.source_labels) > 1 and not config.pool_sources:
        cap = config.solver.largest_source_weight(cap, len(samples.source_labels))
    least = targets * config.q_target_min
    most = targets * _largest_on_target(config, samples) + sources * cap
    if not least <= budget <= most:
        raise ValueError(
            f"alpha: the weights cannot sum to n + alpha·m = {budget:.6g}; q_target_min and q_max allow "
            f"{least:.6g} to {most:.6g}"
        )
    return budget


def reference_weights(config: WeightingConfig, samples: Samples, given: Any = None) -> Vector:
    """p0, one number per sample.

    Args:
        config: of the weighting; it names one of the paper's.
        samples: who they are.
        given: the user's own, in place of the named one.
    """
    if given is not None:
        return non_negative_vector("p0", given, len(samples)).copy()
    on_target, off_target = {
        "target": (1.0 / _counts(samples)[0], 0.0),
        "ones": (1.0, 1.0),
        "target_one": (1.0, 0.0),
        "budget": (1.0, config.alpha),
    }[config.p0]
    return np.where(samples.on_target, on_target, off_target)


def _largest_on_target(config: WeightingConfig, samples: Samples) -> float:
    return config.largest_on_target(*_counts(samples))


def _counts(samples: Samples) -> tuple[int, int]:
    """How many target samples and how many source samples there are."""
    targets = int(np.count_nonzero(samples.on_target))
    return targets, len(samples) - targets
