"""Which estimator and checks a `Reweighter` asks, and what of the samples they are shown."""

from __future__ import annotations

from typing import Any

from beacon.weighting.checks import BuiltCheck, Check
from beacon.weighting.discrepancy import DISCREPANCIES, KNN, Discrepancy, Estimator
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Vector


def choose_estimator(choice: str | Discrepancy | Estimator | None) -> tuple[Estimator, float]:
    """The estimator that was chosen, and its λ_d where none is given."""
    chosen: Any = KNN() if choice is None else choice
    if isinstance(chosen, str):
        if chosen not in DISCREPANCIES:
            names = ", ".join(DISCREPANCIES)
            raise ValueError(f"discrepancy: unknown {chosen!r}; choose one of {names}, or a callable")
        chosen = DISCREPANCIES[chosen]()
    if not callable(chosen) or isinstance(chosen, type):
        raise ValueError(f"discrepancy: must be a name, a Discrepancy or a callable, got {chosen!r}")
    strength = float(getattr(chosen, "default_strength", Discrepancy.default_strength))
    return (chosen.build(None) if isinstance(chosen, Discrepancy) else chosen), strength


def ask(part: Estimator | BuiltCheck, inputs: RefreshInputs) -> PerSample | Vector:
    """What an estimator or a check says; whoever needs the rows of all processes gets them."""
    return part(inputs if getattr(part, "shards", False) else inputs.whole())


def build_check(check: Check | BuiltCheck) -> BuiltCheck | None:
    """The check itself; None where there is nothing to look at."""
    if isinstance(check, Check):
        return check.build(None)
    if not callable(check) or isinstance(check, type):
        raise ValueError(f"checks: must be checks such as NeighborActionCheck(), got {check!r}")
    return check
