"""BEACON's options: what we recommend, and what the paper has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from beacon.errors import UserError
from beacon.methods.localized import LocalizedOptions
from beacon.weighting.config import WeightingConfig

# What we recommend, the defaults of --method beacon: here and in `BeaconOptions`, and nowhere else. The
# paper's values are the defaults of `WeightingConfig` and `PaperBeaconOptions`.
RECOMMENDED = WeightingConfig(
    # Losses follow the phase of the episode, and weights of single windows follow them; means over a
    # demonstration do not.
    granularity="demo",
    # Does not punish what the few target demonstrations happen not to cover.
    discrepancy="knn-relative",
    # Strong enough for demonstrations that the checks find wanting to fade to nothing: their discrepancy is
    # larger by a fifth and more. How much the target weighs is bounded below.
    lambda_d=1.0,
    # In a short run, small steps reach their weights when the learning rate has fallen; the minimiser is
    # there at the first refresh. A stronger λ2 than the paper's keeps it from letting a few demonstrations
    # decide.
    update="auto",
    lambda_2=0.1,
    # About what target and source weigh in the end in the paper (1.90 and 0.46). With much more, a few
    # demonstrations are learned by heart.
    target_factor=4.0,
)
RELATIVE = ("knn-relative", "knn-joint")  # estimators that compare with subsets of the source
NEIGHBOURHOOD = ("knn", *RELATIVE)  # estimators that take a number of neighbours

Refresh = Literal["exact", "amortized"]
Sampling = Literal["uniform", "proportional"]
ActionCheck = Literal["auto", "motion", "none"]
PeerCheck = Literal["both", "embedding", "none"]


@dataclass(frozen=True)
class BeaconOptions:
    """Options of BEACON as we recommend it. The weighting's own are the fields of `WeightingConfig`."""

    weighting: Annotated[WeightingConfig, tyro.conf.arg(name="")] = RECOMMENDED
    # Neighbours of the k-NN discrepancies; paper: 4 to 6.
    k: int = 5
    # knn-relative and knn-joint: demonstrations of a domain, and domains, whose discrepancies differ by less
    # than so many robust standard deviations count as equally far, so that weights do not follow noise;
    # paper: 0.
    gap_tolerance: float = 2.0
    # Leave neighbours of the same demonstration out of the target's own spread; paper: no.
    exclude_same_demo: bool = False
    # Embeddings the discrepancy looks at: of the images alone (paper), or of the whole observation.
    features: Literal["vision", "obs"] = "vision"
    # Epochs between two refreshes of the weights, K_q; paper: 1.
    refresh_every: int = 1
    # "exact" sweeps all windows at every refresh (paper); "amortized" reuses what the gradient steps
    # have computed and sweeps only what they have not visited lately, at a small part of the cost.
    refresh: Refresh = "amortized"
    # Amortized only: epochs after which what a gradient step said of a window counts as forgotten.
    max_age: int = 4
    # Epochs before the first refresh, with all weights equal; paper: 0.
    warmup_epochs: int = 0
    # Noise draws per window and exact refresh; paper: 1.
    refresh_draws: int = 1
    # "uniform" draws windows equally often and weights their losses (paper); "proportional" draws them as
    # often as they weigh, with unit losses: the same expectation, less variance.
    sampling: Sampling = "proportional"
    # What of the losses enters the weights: the loss itself (paper), what it has beyond the mean target loss
    # at the same "phase" of the episode, or the "excess" of a target-only policy's loss over it, which is
    # large where the actions are not what the target would do.
    loss_signal: Literal["raw", "phase", "excess"] = "raw"
    # Parts that an episode is divided into for --loss-signal phase.
    phase_knots: int = 10
    # "motion" multiplies the discrepancy by how badly a window's actions explain the robot's motion beside
    # them, by a model of the target: finds mirrored, delayed and noisy actions, which no image shows. "auto"
    # does so where the target's motion explains its actions; paper: "none".
    action_check: ActionCheck = "auto"
    # Multiply the discrepancy by how much a demonstration's actions differ from those of demonstrations that
    # look alike: finds wrong actions, other goals and other cameras, as long as most of the source is sound.
    # Alike by the learned "embedding", or by "both" that and coarse pictures, which need no training: then
    # the weights start from what these say, where they are minimised. Paper: "none".
    peer_check: PeerCheck = "both"
    # Strength of an auxiliary loss of the encoder, future-state prediction: tell where the robot is going, by
    # one linear readout that is fitted on the source and has to hold on the target. Off by default: 0.01
    # helps where only the look differs, and costs much where the target's robot moves or senses otherwise
    # than the source's. Needs proprioception; paper: 0.
    foresight: float = 0.0
    # Gradient steps of the target-only reference policy, as a share of the run's own. Only the localized
    # discrepancy and --loss-signal excess train one, once, before the first refresh.
    reference_share: float = 0.25
    # The localized discrepancy's own.
    localized: LocalizedOptions = field(default_factory=LocalizedOptions)

    def __post_init__(self) -> None:
        for name in ("k", "refresh_every", "max_age", "refresh_draws", "phase_knots"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")
        if self.warmup_epochs < 0:
            raise UserError(f"--warmup-epochs {self.warmup_epochs}: must be at least 0")
        if not self.gap_tolerance >= 0:
            raise UserError(f"--gap-tolerance {self.gap_tolerance}: must be at least 0")
        if not 0 <= self.foresight < math.inf:
            raise UserError(f"--foresight {self.foresight}: must be at least 0, and finite")
        if not 0 < self.reference_share <= 1:
            raise UserError(f"--reference-share {self.reference_share}: must be above 0 and at most 1")
        if self.exclude_same_demo and self.weighting.discrepancy != "knn":
            raise UserError(f"--exclude-same-demo is for --discrepancy knn, not {self.weighting.discrepancy}")

    @property
    def first_refresh(self) -> int:
        """The epoch of the first refresh. In an amortized run nothing is known before epoch 1."""
        return max(self.warmup_epochs, 1 if self.refresh == "amortized" else 0)

    def estimator_options(self) -> dict[str, Any]:
        """What the discrepancy estimator is made with."""
        if self.weighting.discrepancy not in NEIGHBOURHOOD:
            return {}
        chosen: dict[str, Any] = {"k": self.k}
        if self.weighting.discrepancy in RELATIVE:
            chosen["tolerance"] = self.gap_tolerance
        if self.weighting.discrepancy == "knn":
            chosen["exclude_same_demo"] = self.exclude_same_demo
        return chosen


@dataclass(frozen=True)
class PaperBeaconOptions(BeaconOptions):
    """Options of BEACON as the paper has it."""

    weighting: Annotated[WeightingConfig, tyro.conf.arg(name="")] = field(default_factory=WeightingConfig)
    # "exact" sweeps all windows at every refresh (paper); "amortized" reuses what the gradient steps
    # have computed and sweeps only what they have not visited lately.
    refresh: Refresh = "exact"
    # "uniform" draws windows equally often and weights their losses (paper); "proportional" draws them as
    # often as they weigh, with unit losses: the same expectation, less variance.
    sampling: Sampling = "uniform"
    # "motion" multiplies the discrepancy by how badly a window's actions explain the robot's motion beside
    # them, by a model of the target; "auto" does so where the target's motion explains its actions; paper:
    # "none".
    action_check: ActionCheck = "none"
    # knn-relative and knn-joint: demonstrations of a domain, and domains, whose discrepancies differ by less
    # than so many robust standard deviations count as equally far; paper: 0.
    gap_tolerance: float = 0.0
    # Multiply the discrepancy by how much a demonstration's actions differ from those of demonstrations that
    # look alike, by the learned "embedding", or by "both" that and coarse pictures; paper: "none".
    peer_check: PeerCheck = "none"
