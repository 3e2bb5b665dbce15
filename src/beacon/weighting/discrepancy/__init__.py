"""How far each source sample is from the target domain.

An estimator is a callable that takes `DiscrepancyInputs` and returns one non-negative number per
source sample, or a `Discrepancy` with diagnostics besides. Any callable of that kind will do; the
built-in ones are known by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beacon.weighting.discrepancy.base import (
    Discrepancy,
    DiscrepancyInputs,
    DiscrepancyWarning,
    Estimator,
    as_discrepancy,
)
from beacon.weighting.discrepancy.classifier import DomainClassifier
from beacon.weighting.discrepancy.knn import KNN
from beacon.weighting.discrepancy.localized import Localized, LocalizedResult, localized_discrepancy
from beacon.weighting.discrepancy.peers import PeerChecked
from beacon.weighting.discrepancy.relative import KNNJoint, KNNRelative

__all__ = [
    "ESTIMATORS",
    "KNN",
    "Discrepancy",
    "DiscrepancyInputs",
    "DiscrepancyWarning",
    "DomainClassifier",
    "Estimator",
    "KNNJoint",
    "KNNRelative",
    "Localized",
    "LocalizedResult",
    "PeerChecked",
    "as_discrepancy",
    "localized_discrepancy",
    "make_estimator",
]

ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "knn": KNN,
    "knn-relative": KNNRelative,
    "knn-joint": KNNJoint,
    "classifier": DomainClassifier,
    "localized": Localized,
}


def make_estimator(choice: str | Estimator, **options: Any) -> Estimator:
    """The estimator of that name with these options, or the given callable itself."""
    if not isinstance(choice, str):
        if not callable(choice):
            raise ValueError(f"discrepancy: must be a name or a callable, got {choice!r}")
        if options:
            raise ValueError(
                f"discrepancy_options: only for estimators chosen by name, got {sorted(options)}"
            )
        return choice
    if choice not in ESTIMATORS:
        raise ValueError(
            f"discrepancy: unknown {choice!r}; choose one of {', '.join(ESTIMATORS)}, or a callable"
        )
    try:
        return ESTIMATORS[choice](**options)
    except TypeError as error:
        raise ValueError(f"discrepancy_options: {choice!r} does not take these: {error}") from None
