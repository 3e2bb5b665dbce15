"""Weights under extreme losses, embeddings and budgets: bounds and budget hold to 1e-9 relative."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.weighting import Minimiser, Reweighter, Steps, WeightingConfig
from beacon.weighting.solvers.projection import BudgetWarning, project_budget, project_simplex
from soak.campaign import Attempt, Campaign, Randomness

Vector = NDArray[np.float64]
TOLERANCE = 1e-9  # relative
MILLION = 1_000_000
# Every so often one of a million samples, which takes a second.
LARGE_EVERY = 500
SIZES, SHARES = (1, 2, 3, 10, 100, 5000, 20_000), (0.1, 0.1, 0.2, 0.3, 0.2, 0.08, 0.02)


def _normal(rng: Randomness, size: int) -> Vector:
    return rng.normal(size=size)


SHAPES: dict[str, Callable[[Randomness, int], Vector]] = {
    "normal": _normal,
    "all equal": lambda rng, size: np.full(size, float(rng.normal())),
    "zeros": lambda rng, size: np.zeros(size),
    "huge": lambda rng, size: rng.normal(size=size) * 10.0 ** float(rng.uniform(10, 150)),
    "overflowing": lambda rng, size: np.where(rng.random(size) < 0.5, 1e308, 1.0) * rng.uniform(0, 1, size),
    "tiny": lambda rng, size: rng.normal(size=size) * 10.0 ** float(rng.uniform(-320, -10)),
    "all scales": lambda rng, size: 10.0 ** rng.uniform(-300, 300, size),
    "one outlier": lambda rng, size: np.r_[1e12, np.zeros(size - 1)],
    "few values": lambda rng, size: rng.integers(0, 3, size).astype(np.float64),
}


class Numbers(Campaign):
    """Of two attempts one is a projection, one a `Reweighter` with some refreshes."""

    name = "numbers"
    what = (
        "losses that overflow, embeddings that collapse to a point, all-equal weights, one target "
        "window, a million identical samples, budgets at their bounds: projections and solvers keep "
        f"bounds and budget to {TOLERANCE:g} relative, or refuse in one line"
    )
    unit = "problems"
    share = 0.05
    sample = 150
    planned = 20_000

    def prepare(self) -> None:
        """Nothing to make."""

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """One problem."""
        large = not self.small and number % LARGE_EVERY < 2
        size = MILLION if large else int(rng.choice(SIZES, p=SHARES))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return _projection(rng, size) if number % 2 == 0 else _reweighter(rng, max(size, 2))
            except Exception as error:
                return Attempt(1, f"{type(error).__name__}: {error}")


def _shape(rng: Randomness) -> str:
    return str(rng.choice(list(SHAPES)))


def _projection(rng: Randomness, size: int) -> Attempt:
    """A point, a box and a budget."""
    shape = _shape(rng)
    x = SHAPES[shape](rng, size)
    lower = np.zeros(size) if rng.random() < 0.5 else rng.uniform(0, 1, size)
    width = float(rng.choice([0.0, 1e-12, 1.0, 5.0, 1e6]))
    upper = lower + width * (rng.uniform(0, 1, size) if rng.random() < 0.5 else 1.0)
    least, most = float(lower.sum()), float(upper.sum())
    share = float(rng.choice([0.0, 1.0, 1e-12, 1 - 1e-12, rng.random()]))
    budget = least + share * (most - least)
    q = project_budget(x, budget, lower, upper)
    off = _off(q, budget, lower, upper)
    if off > TOLERANCE:
        return Attempt(1, f"projection of {size} {shape}, width {width:g}, share {share:g}: off by {off:.2g}")
    if shape != "overflowing" and abs(x).max() < 1e100 and (worst := _simplex(x)) > TOLERANCE:
        return Attempt(1, f"simplex of {size} {shape}: off by {worst:.2g}")
    return Attempt(1, measured={"relative error of bounds and budget": off})


def _simplex(x: Vector) -> float:
    return _off(project_simplex(x), 1.0, np.zeros(x.size), np.ones(x.size))


def _off(q: Vector, budget: float, lower: Vector, upper: Vector) -> float:
    """By how much bounds and budget are broken, relative to them; infinite where something is not finite."""
    if not np.isfinite(q).all():
        return float("inf")
    scale = max(1.0, abs(budget))
    return max(
        abs(float(np.sum(q, dtype=np.longdouble)) - budget) / scale,
        float((lower - q).max()),
        float(((q - upper) / np.maximum(1.0, upper)).max()),
    )


def _reweighter(rng: Randomness, size: int) -> Attempt:
    """Some refreshes with extreme inputs."""
    targets = 1 if rng.random() < 0.3 else int(rng.integers(1, size))
    domains = np.array(["sim"] * (size - targets) + ["real"] * targets)
    if size - targets > 1 and rng.random() < 0.3:
        domains[: (size - targets) // 2] = "other"
    options: dict[str, Any] = {
        "alpha": float(rng.choice([0.0, 1e-9, 0.3, 0.5, 1.0, 5.0])),
        "q_target_min": float(rng.choice([0.0, 0.05, 1.0])),
        "q_max": float(rng.choice([1.0, 1.0 + 1e-12, 5.0, 1e6])),
        "lambda_2": float(rng.choice([1e-12, 1e-3, 0.1, 1e6])),
        "lambda_1": float(rng.choice([0.0, 0.01, 1e6])),
        "target_factor": [None, 4.0, "auto", "natural", "rule"][int(rng.integers(5))],
        "p0": str(rng.choice(["target", "ones", "target_one", "budget"])),
        "solver": Minimiser() if rng.random() < 0.5 else Steps(),
    }
    try:
        reweighter = Reweighter(domains, "real", config=WeightingConfig(**options), planned_refreshes=3)
    except ValueError as error:
        return Attempt(1, None if "\n" not in str(error) else f"refused in several lines: {error}")
    shapes = (_shape(rng), _shape(rng))
    for _ in range(2 if size < MILLION else 1):
        losses = np.abs(SHAPES[shapes[0]](rng, size))
        discrepancies = np.abs(SHAPES[shapes[1]](rng, size))
        given: dict[str, Any] = {"discrepancies": discrepancies}
        if size < 200 and rng.random() < 0.5:  # embeddings at one point, or nearly
            spread = float(rng.choice([0.0, 1e-30, 1e-3, 1e30]))
            given = {"embeddings": (1.0 + spread * rng.normal(size=(size, 4))).astype(np.float32)}
        upper = reweighter._upper  # the refresh changes that of the target in place
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                reweighter.refresh(losses, **given)
        except ValueError as error:
            return Attempt(1, None if "\n" not in str(error) else f"refused in several lines: {error}")
        weights, budget = reweighter.weights, reweighter.budget
        if any(isinstance(warning.message, BudgetWarning) for warning in said):
            budget = float(weights.sum())  # caps that scale with w may leave less room, which is said
        off = _off(weights, budget, reweighter._lower, upper)
        if not off <= TOLERANCE:
            chosen = {name: str(value) for name, value in options.items()}
            return Attempt(1, f"{size} samples, {targets} target, {shapes}, {chosen}: off by {off:.2g}")
    return Attempt(1, measured={"relative error of bounds and budget": off})
