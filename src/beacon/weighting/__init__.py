"""The heart of BEACON: per-sample losses and embeddings in, weights out.

Discrepancies → objective → update → projection. NumPy arrays or torch tensors in, arrays out; nothing
else of beacon is needed. `Reweighter` is all of it in one object.
"""

from beacon.weighting.bound import BoundReport, bound_report
from beacon.weighting.config import WeightingConfig
from beacon.weighting.convex import ConvexSolution, convex_update
from beacon.weighting.discrepancy import (
    KNN,
    Discrepancy,
    DiscrepancyInputs,
    DiscrepancyWarning,
    DomainClassifier,
    KNNJoint,
    KNNRelative,
    Localized,
    localized_discrepancy,
)
from beacon.weighting.multisource import MultiSourceSteps, TwoLevelWeights, multisource_update
from beacon.weighting.objective import ObjectiveTerms, Strengths, objective_terms
from beacon.weighting.projection import (
    BudgetWarning,
    project_budget,
    project_budget_bisection,
    project_simplex,
)
from beacon.weighting.reweighter import RefreshReport, Reweighter
from beacon.weighting.stochastic import stochastic_update

__all__ = [
    "KNN",
    "BoundReport",
    "BudgetWarning",
    "ConvexSolution",
    "Discrepancy",
    "DiscrepancyInputs",
    "DiscrepancyWarning",
    "DomainClassifier",
    "KNNJoint",
    "KNNRelative",
    "Localized",
    "MultiSourceSteps",
    "ObjectiveTerms",
    "RefreshReport",
    "Reweighter",
    "Strengths",
    "TwoLevelWeights",
    "WeightingConfig",
    "bound_report",
    "convex_update",
    "localized_discrepancy",
    "multisource_update",
    "objective_terms",
    "project_budget",
    "project_budget_bisection",
    "project_simplex",
    "stochastic_update",
]
