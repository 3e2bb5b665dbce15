"""The heart of BEACON: per-sample losses and embeddings in, weights out.

Discrepancies → objective → update → projection. NumPy arrays or torch tensors in, arrays out; nothing
else of beacon is needed. `Reweighter` is all of it in one object.
Everything loads on first use, so that a command line can read `WeightingConfig` without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "KNN": "discrepancy",
    "BoundReport": "bound",
    "BudgetWarning": "projection",
    "ConvexSolution": "convex",
    "Discrepancy": "discrepancy",
    "DiscrepancyInputs": "discrepancy",
    "DiscrepancyWarning": "discrepancy",
    "DomainClassifier": "discrepancy",
    "KNNJoint": "discrepancy",
    "KNNRelative": "discrepancy",
    "Localized": "discrepancy",
    "MultiSourceSteps": "multisource",
    "ObjectiveTerms": "objective",
    "RefreshReport": "reweighter",
    "Reweighter": "reweighter",
    "Strengths": "objective",
    "TwoLevelWeights": "multisource",
    "WeightingConfig": "config",
    "bound_report": "bound",
    "convex_update": "convex",
    "localized_discrepancy": "discrepancy",
    "multisource_update": "multisource",
    "objective_terms": "objective",
    "project_budget": "projection",
    "project_budget_bisection": "projection",
    "project_simplex": "projection",
    "stochastic_update": "stochastic",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.weighting.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.weighting' has no attribute {name!r}")
