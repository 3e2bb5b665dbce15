"""The heart of BEACON: per-sample losses and embeddings in, weights out.

Discrepancies and checks → objective → solver → weights. NumPy arrays or torch tensors in, arrays out.
`Reweighter` is all of it in one object. Everything loads on first use, so that a command line can read the
options without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.weighting.bound import BoundReport, bound_report
    from beacon.weighting.checks import (
        CHECKS,
        BuiltCheck,
        Check,
        InverseDynamicsCheck,
        NeighborActionCheck,
    )
    from beacon.weighting.config import WeightingConfig
    from beacon.weighting.discrepancy import (
        DISCREPANCIES,
        KNN,
        Discrepancy,
        DomainClassifier,
        KNNJoint,
        KNNRelative,
        LocalizedEstimator,
        localized_discrepancy,
    )
    from beacon.weighting.inputs import DiscrepancyWarning, PerSample, RefreshInputs
    from beacon.weighting.objective import ObjectiveTerms, Strengths, objective_terms
    from beacon.weighting.problem import WeightProblem, Weights
    from beacon.weighting.reweighter import RefreshReport, Reweighter
    from beacon.weighting.shard import Shard
    from beacon.weighting.solvers import SOLVERS, Minimiser, Solver, Steps
    from beacon.weighting.solvers.minimiser import ConvexSolution, minimise
    from beacon.weighting.solvers.projection import (
        BudgetWarning,
        project_budget,
        project_budget_bisection,
        project_simplex,
    )
    from beacon.weighting.solvers.steps import stochastic_steps
    from beacon.weighting.warning import WeightingWarning

_HOMES = {
    "CHECKS": "checks",
    "DISCREPANCIES": "discrepancy",
    "KNN": "discrepancy",
    "SOLVERS": "solvers",
    "BoundReport": "bound",
    "BudgetWarning": "solvers.projection",
    "BuiltCheck": "checks",
    "Check": "checks",
    "ConvexSolution": "solvers.minimiser",
    "Discrepancy": "discrepancy",
    "DiscrepancyWarning": "inputs",
    "DomainClassifier": "discrepancy",
    "InverseDynamicsCheck": "checks",
    "KNNJoint": "discrepancy",
    "KNNRelative": "discrepancy",
    "LocalizedEstimator": "discrepancy",
    "Minimiser": "solvers",
    "NeighborActionCheck": "checks",
    "ObjectiveTerms": "objective",
    "PerSample": "inputs",
    "RefreshInputs": "inputs",
    "RefreshReport": "reweighter",
    "Reweighter": "reweighter",
    "Shard": "shard",
    "Solver": "solvers",
    "Steps": "solvers",
    "Strengths": "objective",
    "WeightProblem": "problem",
    "WeightingConfig": "config",
    "WeightingWarning": "warning",
    "Weights": "problem",
    "bound_report": "bound",
    "localized_discrepancy": "discrepancy",
    "minimise": "solvers.minimiser",
    "objective_terms": "objective",
    "project_budget": "solvers.projection",
    "project_budget_bisection": "solvers.projection",
    "project_simplex": "solvers.projection",
    "stochastic_steps": "solvers.steps",
}
__all__ = [
    "CHECKS",
    "DISCREPANCIES",
    "KNN",
    "SOLVERS",
    "BoundReport",
    "BudgetWarning",
    "BuiltCheck",
    "Check",
    "ConvexSolution",
    "Discrepancy",
    "DiscrepancyWarning",
    "DomainClassifier",
    "InverseDynamicsCheck",
    "KNNJoint",
    "KNNRelative",
    "LocalizedEstimator",
    "Minimiser",
    "NeighborActionCheck",
    "ObjectiveTerms",
    "PerSample",
    "RefreshInputs",
    "RefreshReport",
    "Reweighter",
    "Shard",
    "Solver",
    "Steps",
    "Strengths",
    "WeightProblem",
    "WeightingConfig",
    "WeightingWarning",
    "Weights",
    "bound_report",
    "localized_discrepancy",
    "minimise",
    "objective_terms",
    "project_budget",
    "project_budget_bisection",
    "project_simplex",
    "stochastic_steps",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.weighting.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.weighting' has no attribute {name!r}")
