"""`WeightingConfig`: the objective, its bounds and how it is solved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from beacon.weighting.solvers import Minimiser, Solver, Steps
from beacon.weighting.validation import is_non_negative, require

Granularity = Literal["window", "demo"]
TargetFactor = float | Literal["auto", "natural", "rule"] | None
ReferenceWeights = Literal["target", "ones", "target_one", "budget"]


@dataclass(frozen=True)
class WeightingConfig:
    """How losses and discrepancies become weights. The defaults are the paper's."""

    # Strength of the discrepancy. None: the estimator's own, 0.1 (paper), and 1 for the localized one
    # (paper).
    lambda_d: float | None = None
    # Strength of ‖q − p0‖₁ (paper: about 0.01). Inert with the default p0, see docs/method.md.
    lambda_1: float = 0.01
    # Strength of ‖q‖₂² (paper: 0.01 or 0.001). The minimiser needs it above zero.
    lambda_2: float = 0.01
    # Coefficient of the capacity term γ‖q‖_∞ R(θ) and of the weight decay γ‖q‖_∞. None: the run's
    # --weight-decay; in the library 1e-6 (Diffusion Policy's weight decay).
    gamma: float | None = None
    # Largest weight a sample may have (paper: about 5).
    q_max: float = 5.0
    # How many times as much as the average source sample a target sample may weigh; None: as much as q_max
    # lets it (paper). It keeps the policy from overfitting to few target demonstrations.
    # "natural": a target sample weighs as much as the source samples that have kept their weight. "rule":
    # the target has the share of a rule for co-training ratios, see `target_share`. "auto": "rule" where
    # source and target are known to move and to be sensed alike (`beacon train` asks the data), else
    # "natural".
    target_factor: TargetFactor = None
    # Smallest weight of a target sample (paper: 0.05 or 0.10).
    q_target_min: float = 0.05
    # Average weight of a source sample: the weights sum to n + alpha·m (paper: 0.3 to 0.5).
    alpha: float = 0.5
    # Reference and starting weights: "target" is 1/n on the target and 0 elsewhere (paper), "ones" is 1,
    # "target_one" is 1 on the target and 0 elsewhere, "budget" is 1 on the target and alpha elsewhere.
    p0: ReferenceWeights = "target"
    # One weight per "window" (paper), or per "demo": losses and discrepancies averaged over demonstrations.
    granularity: Granularity = "window"
    # Losses are divided by this. The balance with the discrepancy takes losses between 0 and about 1.
    loss_scale: float = 1.0
    # Share of the old losses in a running average over refreshes; 0 uses the newest alone (paper).
    loss_ema: float = 0.0
    # Several source domains: strength of ‖w − w0‖₁ and ‖w‖₂² (paper: about 0.01 both).
    rho_1: float = 0.01
    rho_2: float = 0.01
    # Several source domains: smallest domain weight, as a share of the 1/K that each starts with (paper: 0).
    w_min: float = 0.0
    # Treat all source domains as one (the paper's single-source algorithm on pooled data).
    pool_sources: bool = False
    # How the weights are found: "steps" are projected subgradient steps (paper), "minimiser" is the exact
    # minimiser at every refresh.
    solver: Solver = field(default_factory=Steps)

    def __post_init__(self) -> None:
        for name in ("lambda_1", "lambda_2", "q_target_min", "alpha", "rho_1", "rho_2", "w_min"):
            value = getattr(self, name)
            require(is_non_negative(value), name, "a number of at least 0", value)
        for name in ("lambda_d", "gamma"):
            value = getattr(self, name)
            require(value is None or is_non_negative(value), name, "None or a number of at least 0", value)
        for name in ("q_max", "loss_scale"):
            value = getattr(self, name)
            require(is_non_negative(value) and value > 0, name, "a number above 0", value)
        limit = f"at most q_max = {self.q_max}"
        require(self.q_target_min <= self.q_max, "q_target_min", limit, self.q_target_min)
        factor = self.target_factor
        is_valid = factor in (None, "auto", "natural", "rule")
        if factor is not None and not isinstance(factor, str):
            is_valid = is_non_negative(factor) and factor > 0
        require(is_valid, "target_factor", "None, 'auto', 'natural', 'rule' or a number above 0", factor)
        require(self.w_min <= 1, "w_min", "at most 1, which keeps all domains alike", self.w_min)
        require(0 <= self.loss_ema < 1, "loss_ema", "at least 0 and below 1", self.loss_ema)
        for name, values in (
            ("p0", ("target", "ones", "target_one", "budget")),
            ("granularity", ("window", "demo")),
        ):
            require(getattr(self, name) in values, name, " or ".join(map(repr, values)), getattr(self, name))
        require(isinstance(self.solver, Solver), "solver", "a Solver, such as Steps()", self.solver)
        self.solver.require(self.lambda_2)

    @property
    def is_natural(self) -> bool:
        """Whether a target sample weighs what the trusted source samples do; "auto" alone knows no better."""
        return self.target_factor in ("natural", "auto")

    def largest_on_target(self, targets: int, sources: int, kept: float | None = None) -> float:
        """The largest weight of a target sample where there are so many target and source samples.

        Args:
            targets: number of target samples.
            sources: number of source samples.
            kept: how many source samples have kept their weight, for the natural share; None: all.

        >>> WeightingConfig(target_factor=4.0).largest_on_target(5, 200)  # 4 · 0.477, of a budget of 105
        1.9090909090909092
        >>> WeightingConfig(target_factor="natural").largest_on_target(5, 200, kept=100.0)  # 105 / 105
        1.0
        """
        if self.target_factor is None:
            return self.q_max
        budget = targets + self.alpha * sources
        factor: float
        if self.is_natural:
            bound = budget / (targets + (sources if kept is None else kept))
        else:
            if isinstance(self.target_factor, str):
                share = target_share(targets, sources)
                factor = share * sources / ((1 - share) * targets)
            else:
                factor = self.target_factor
            bound = factor * budget / (factor * targets + sources)
        return min(self.q_max, max(bound, self.q_target_min))


def target_share(targets: int, sources: int) -> float:
    """The share of the target in the mass, by the rule of arXiv 2604.13645 for co-training ratios.

    With N target and M source samples, shares between N/(N + M) and √(N/M), at most one half, are worth
    trying where M/N > 5; this is their geometric middle. Otherwise it is the natural share.

    Args:
        targets: N.
        sources: M.

    >>> round(target_share(10, 200), 3), round(target_share(10, 20), 3)
    (0.103, 0.333)
    """
    natural = targets / (targets + sources)
    if sources <= 5 * targets:
        return natural
    return math.sqrt(natural * min(0.5, math.sqrt(targets / sources)))


# The paper's options, and what we recommend (docs/methods.md says why each differs).
PAPER_WEIGHTING = WeightingConfig()
RECOMMENDED_WEIGHTING = WeightingConfig(
    # Losses follow the phase of the episode, and weights of single windows follow them; means over a
    # demonstration do not.
    granularity="demo",
    # Strong enough that demonstrations which fail a check end at a weight of zero. How much the target
    # weighs is bounded below.
    lambda_d=1.0,
    # In a short run, small steps reach their weights when the learning rate has fallen; the minimiser is
    # there at the first refresh. A stronger λ2 than the paper's keeps it from letting a few demonstrations
    # decide.
    solver=Minimiser(),
    lambda_2=0.1,
    # The target's share follows from the numbers of demonstrations, and is larger only where source and
    # target move and are sensed alike. With much more the policy overfits to a few of them.
    target_factor="auto",
)
