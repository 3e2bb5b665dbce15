"""Every knob of the reweighting, with its meaning and the paper's value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Update = Literal["stochastic", "convex", "auto"]
Projection = Literal["clip", "direct"]
Reference = Literal["target", "ones", "target_one", "budget"]
Granularity = Literal["window", "demo"]
DiscrepancyName = Literal["knn", "knn-relative", "knn-joint", "classifier", "localized"]

TOTAL_STEP = 6.0  # the paper's η_q times its number of refreshes, 0.01 × 600: how far weights travel in a run
SMALL_STEP = 0.01  # the paper's η_q; larger steps clip most source weights at once and erase their ranking


@dataclass(frozen=True)
class WeightingConfig:
    """How losses and discrepancies become weights. The defaults are the paper's."""

    # How the weights are updated: "stochastic" takes projected subgradient steps (paper), "convex" the exact
    # minimiser at every refresh, "auto" is convex where lambda_2 is above 0, which that needs.
    update: Update = "stochastic"
    # How far a source sample is from the target domain; "localized" is a constant per source domain.
    discrepancy: DiscrepancyName = "knn"
    # Strength of the discrepancy. None: 0.1 (paper), and 1 for the localized estimator (paper).
    lambda_d: float | None = None
    # Strength of ‖q − p0‖₁ (paper: about 0.01). Inert with the default p0, see docs/method.md.
    lambda_1: float = 0.01
    # Strength of ‖q‖₂² (paper: 0.01 or 0.001). The convex update needs it above zero.
    lambda_2: float = 0.01
    # Coefficient of the capacity term γ‖q‖_∞ R(θ) and of the weight decay γ‖q‖_∞.
    gamma: float = 1e-6
    # Largest weight a sample may have (paper: about 5).
    q_max: float = 5.0
    # How many times as much as the average source sample a target sample may weigh; None: as much as q_max
    # lets it (paper). So few demonstrations are not learned by heart, and the source is never given up.
    target_factor: float | None = None
    # Smallest weight of a target sample (paper: 0.05 or 0.10).
    q_target_min: float = 0.05
    # Average weight of a source sample: the weights sum to n + alpha·m (paper: 0.3 to 0.5).
    alpha: float = 0.5
    # Reference and starting weights: "target" is 1/n on the target and 0 elsewhere (paper), "ones" is 1,
    # "target_one" is 1 on the target and 0 elsewhere, "budget" is 1 on the target and alpha elsewhere.
    p0: Reference = "target"
    # Step size of the weights; "auto" lets them travel as far as in the paper, however many the refreshes.
    eta_q: float | Literal["auto"] = "auto"
    # "clip" the step to the bounds, then project (paper; leaves no exact zeros), or project it "direct"ly.
    projection: Projection = "clip"
    # One weight per "window" (paper), or per "demo": losses and discrepancies averaged over demonstrations.
    granularity: Granularity = "window"
    # Share of the old losses in a running average over refreshes; 0 uses the newest alone (paper).
    loss_ema: float = 0.0
    # Convex update only: divide the costs by their maximum when it exceeds 1.
    normalize_cost: bool = False
    # Several source domains: strength of ‖w − w0‖₁ and ‖w‖₂² (paper: about 0.01 both).
    rho_1: float = 0.01
    rho_2: float = 0.01
    # Several source domains: step size of the domain weights (paper: 0.01 to 0.1).
    eta_w: float = 0.05
    # Several source domains: step size of target weights; None is as eta_q (paper: unstated, 0.01).
    eta_t: float | None = None
    # Several source domains: smallest domain weight, as a share of the 1/K that each starts with (paper: 0).
    w_min: float = 0.0
    # Several source domains: divide sample steps by w², so that K domains move as fast as one (paper: no).
    precondition: bool = False
    # Treat all source domains as one (the paper's single-source algorithm on pooled data).
    pool_sources: bool = False

    def __post_init__(self) -> None:
        for name in (
            "lambda_1",
            "lambda_2",
            "gamma",
            "q_target_min",
            "alpha",
            "rho_1",
            "rho_2",
            "eta_w",
            "w_min",
        ):
            _require(
                _is_non_negative(getattr(self, name)), name, "a number of at least 0", getattr(self, name)
            )
        for name in ("lambda_d", "eta_t"):
            value = getattr(self, name)
            _require(value is None or _is_non_negative(value), name, "None or a number of at least 0", value)
        _require(_is_non_negative(self.q_max) and self.q_max > 0, "q_max", "a number above 0", self.q_max)
        _require(
            self.q_target_min <= self.q_max,
            "q_target_min",
            f"at most q_max = {self.q_max}",
            self.q_target_min,
        )
        factor = self.target_factor
        _require(
            factor is None or (_is_non_negative(factor) and factor > 0),
            "target_factor",
            "None or a number above 0",
            factor,
        )
        eta = self.eta_q
        eta_is_fine = _is_non_negative(eta) if isinstance(eta, int | float) else eta == "auto"
        _require(eta_is_fine, "eta_q", "'auto' or a number of at least 0", self.eta_q)
        _require(self.w_min <= 1, "w_min", "at most 1, which keeps all domains alike", self.w_min)
        _require(0 <= self.loss_ema < 1, "loss_ema", "at least 0 and below 1", self.loss_ema)
        _require(
            self.update != "convex" or self.lambda_2 > 0,
            "lambda_2",
            "above 0 for the convex update",
            self.lambda_2,
        )
        for name, values in (
            ("update", ("stochastic", "convex", "auto")),
            ("projection", ("clip", "direct")),
            ("p0", ("target", "ones", "target_one", "budget")),
            ("granularity", ("window", "demo")),
        ):
            _require(getattr(self, name) in values, name, " or ".join(map(repr, values)), getattr(self, name))

    def largest_on_target(self, targets: int, sources: int) -> float:
        """The largest weight of a target sample where there are so many target and source samples.

        >>> WeightingConfig(target_factor=4.0).largest_on_target(5, 200)  # 4 · 0.477, of a budget of 105
        1.9090909090909092
        """
        if self.target_factor is None:
            return self.q_max
        budget = targets + self.alpha * sources
        bound = self.target_factor * budget / (self.target_factor * targets + sources)
        return min(self.q_max, max(bound, self.q_target_min))

    @property
    def minimises(self) -> bool:
        """Whether a refresh finds the minimiser, instead of taking steps."""
        return self.update == "convex" or (self.update == "auto" and self.lambda_2 > 0)

    def steps(self, refresh: int, refreshes: int) -> tuple[int, float]:
        """How many projected steps refresh number ``refresh`` (from 0) of ``refreshes`` takes, of what size.

        With eta_q="auto" the weights travel as far as in the paper, 6, in steps of at most 0.01. The first
        refresh looks at a policy that has not learned yet: however few there are, it takes one such step.

        >>> WeightingConfig().steps(5, 600), WeightingConfig().steps(0, 7), WeightingConfig().steps(1, 7)
        ((1, 0.01), (1, 0.01), (100, 0.01))
        """
        if self.eta_q != "auto":
            return 1, float(self.eta_q)
        if TOTAL_STEP / refreshes <= SMALL_STEP:
            return 1, TOTAL_STEP / refreshes
        if refresh == 0 and refreshes > 1:
            return 1, SMALL_STEP
        per_refresh = TOTAL_STEP / max(1, refreshes - 1)
        count = math.ceil(round(per_refresh / SMALL_STEP, 9))
        return count, per_refresh / count

    def discrepancy_strength(self) -> float:
        """λ_d, with the default that belongs to the estimator."""
        if self.lambda_d is not None:
            return self.lambda_d
        return 1.0 if self.discrepancy == "localized" else 0.1


def _is_non_negative(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _require(condition: bool, name: str, expected: str, got: object) -> None:
    if not condition:
        raise ValueError(f"{name}: must be {expected}, got {got!r}")
