"""Options of `Reweighter` by name: those of the config, and those that had other names before 0.2."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import fields, replace
from typing import Any

from beacon.weighting.config import WeightingConfig
from beacon.weighting.discrepancy import DISCREPANCIES, LocalizedEstimator
from beacon.weighting.solvers import Minimiser, Steps

ARGUMENTS = ("episodes", "config", "discrepancy", "checks", "planned_refreshes", "seed")  # of Reweighter
STEP_OPTIONS = ("eta_q", "projection", "eta_w", "eta_t", "precondition")


def configure(config: WeightingConfig, options: dict[str, Any]) -> WeightingConfig:
    """The config with some of its fields set anew; an unknown name is answered with the nearest."""
    known = [field.name for field in fields(config)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *ARGUMENTS], 1)
            meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise ValueError(f"{name}: Reweighter has no such option{meant}")
    return replace(config, **options)


def translate_legacy_options(
    options: dict[str, Any], discrepancy: Any, planned_refreshes: int
) -> tuple[dict[str, Any], Any, int]:
    """Options of before 0.2 as today's, each with a DeprecationWarning.

    Args:
        options: keyword arguments beyond the named ones; not changed.
        discrepancy: as given.
        planned_refreshes: as given.
    """
    left = dict(options)
    if "refreshes" in left:
        _deprecated("refreshes=", "planned_refreshes=")
        planned_refreshes = left.pop("refreshes")
    if "discrepancy_options" in left:
        _deprecated("discrepancy_options=", "discrepancy=KNN(k=...)")
        chosen = dict(left.pop("discrepancy_options"))
        if "tolerance" in chosen:
            chosen["outlier_tolerance"] = chosen.pop("tolerance")
        name = discrepancy or "knn"
        if not isinstance(name, str):
            raise ValueError("discrepancy_options: only for estimators chosen by name")
        try:
            estimator = LocalizedEstimator if name == "localized" else DISCREPANCIES[name]
            discrepancy = estimator(**chosen)
        except (KeyError, TypeError) as error:
            raise ValueError(f"discrepancy_options: {name!r} does not take these: {error}") from None
    update = left.pop("update", None)
    steps = {name: left.pop(name) for name in STEP_OPTIONS if name in left}
    normalize = left.pop("normalize_cost", False)
    if update is not None or steps or normalize:
        _deprecated("update=, eta_q= and the like", "solver=Steps(eta_q=...) or solver=Minimiser()")
        if update == "auto":  # the minimiser where it can be
            update = "convex" if left.get("lambda_2", WeightingConfig.lambda_2) > 0 else "stochastic"
        if update == "convex":
            left["solver"] = Minimiser(normalize_cost=normalize)
        elif update in (None, "stochastic"):
            left["solver"] = Steps(**steps)
        else:
            raise ValueError(f"update: must be 'stochastic' or 'convex', got {update!r}")
    return left, discrepancy, planned_refreshes


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"Reweighter({old}) is deprecated; say {new}", DeprecationWarning, stacklevel=4)
