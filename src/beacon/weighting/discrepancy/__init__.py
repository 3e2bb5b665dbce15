"""How far each source sample is from the target domain. One file an estimator; `DISCREPANCIES` by name.

An estimator of one's own is a part (`Discrepancy`), or any callable that takes `RefreshInputs` and returns
one non-negative number per source sample, or `PerSample` with diagnostics besides.
"""

from __future__ import annotations

from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy, Estimator
from beacon.weighting.discrepancy.classifier import DomainClassifier
from beacon.weighting.discrepancy.knn import KNN
from beacon.weighting.discrepancy.localized import LocalizedEstimator, localized_discrepancy
from beacon.weighting.discrepancy.relative import KNNJoint, KNNRelative

__all__ = [
    "DISCREPANCIES",
    "KNN",
    "Discrepancy",
    "DomainClassifier",
    "Estimator",
    "KNNJoint",
    "KNNRelative",
    "LocalizedEstimator",
    "localized_discrepancy",
]
