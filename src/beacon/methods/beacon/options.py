"""BEACON's options: `PAPER` and `RECOMMENDED`, two values of one type. An ablation is an edit of a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from beacon.audit.check import AuditCheck
from beacon.errors import UserError
from beacon.methods.base import Features
from beacon.methods.beacon import localized  # noqa: F401  registers the discrepancy
from beacon.methods.beacon.loss_signal import LossSignal, RawLoss
from beacon.methods.beacon.measurement import Measurement, ReuseGradientSteps, SweepAll
from beacon.methods.beacon.noise import AllAlike, NoiseLevels
from beacon.plain import OMIT_DEFAULT
from beacon.weighting.checks import Check
from beacon.weighting.config import PAPER_WEIGHTING, RECOMMENDED_WEIGHTING, WeightingConfig
from beacon.weighting.discrepancy import KNN, Discrepancy, KNNRelative

Sampling = Literal["uniform", "proportional"]


@dataclass(frozen=True)
class BeaconOptions:
    """Options of BEACON; the defaults are what we recommend."""

    # Objective, bounds and solver of the weights.
    weighting: Annotated[WeightingConfig, tyro.conf.arg(name="")] = RECOMMENDED_WEIGHTING
    # How far a source window is from the target: knn (paper), knn-relative, knn-joint, classifier, localized.
    discrepancy: Discrepancy = field(default_factory=lambda: KNNRelative(outlier_tolerance=4.0))
    # Checks of demonstrations whose factors multiply the discrepancy, in this order: audit,
    # neighbor-actions, inverse-dynamics; paper: none.
    checks: tuple[Check, ...] = (AuditCheck(),)
    # Where losses and embeddings of a refresh come from: sweep-all (paper), reuse-gradient-steps.
    measurement: Measurement = field(default_factory=ReuseGradientSteps)
    # What of the losses enters the weights: raw (paper), above-phase-baseline, excess-over-target.
    loss_signal: LossSignal = field(default_factory=RawLoss)
    # Embeddings the discrepancy looks at: of the images alone (paper), or of the whole observation.
    features: Features = "vision"
    # Epochs between two refreshes of the weights, K_q; paper: 1.
    refresh_every: int = 1
    # Epochs before the first refresh, with all weights equal; paper: 0.
    warmup_epochs: int = 0
    # "uniform" draws windows equally often and weights their losses (paper); "proportional" draws them as
    # often as they weigh, with unit losses: the same expectation, less variance.
    sampling: Sampling = "proportional"
    # What `--target-factor auto` takes for moving and being sensed alike: the target's motion fits a model of
    # the source's, both as recorded, at most so many times worse than the source's own does.
    largest_dynamics_gap: float = field(default=3.0, metadata=OMIT_DEFAULT)
    # How weights of source windows depend on the noise level: all-alike (paper), by-domain, by-loss,
    # by-audit.
    noise_levels: NoiseLevels = field(default=AllAlike(), metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if self.refresh_every < 1:
            raise UserError(f"--refresh-every {self.refresh_every}: must be at least 1")
        if self.warmup_epochs < 0:
            raise UserError(f"--warmup-epochs {self.warmup_epochs}: must be at least 0")
        if not self.largest_dynamics_gap > 0:
            raise UserError(f"--largest-dynamics-gap {self.largest_dynamics_gap}: must be above 0")

    @property
    def first_epoch(self) -> int:
        """The first epoch before which a refresh may happen."""
        return max(self.warmup_epochs, self.measurement.first_epoch)

    def refreshes_before(self, epoch: int, pace: int = 1) -> bool:
        """Whether the weights are refreshed before this epoch (from 0): K_q, 2 K_q, … counted from 1.

        Args:
            epoch: to come.
            pace: least number of epochs between two refreshes.
        """
        since_first = epoch - self.first_epoch
        return since_first >= 0 and (since_first + 1) % max(self.refresh_every, pace) == 0

    def refresh_count(self, epochs: int, pace: int = 1) -> int:
        """How many refreshes there are in a run, a start from what is known not counted.

        Args:
            epochs: of the run.
            pace: least number of epochs between two refreshes.
        """
        return max(0, epochs - self.first_epoch) // max(self.refresh_every, pace)


RECOMMENDED = BeaconOptions(
    weighting=RECOMMENDED_WEIGHTING,
    discrepancy=KNNRelative(k=5, outlier_tolerance=4.0),
    checks=(AuditCheck(),),
    measurement=ReuseGradientSteps(max_age=4),
    loss_signal=RawLoss(),
    features="vision",
    refresh_every=1,
    warmup_epochs=0,
    sampling="proportional",
)
PAPER = BeaconOptions(
    weighting=PAPER_WEIGHTING,
    discrepancy=KNN(k=5),
    checks=(),
    measurement=SweepAll(draws=1),
    loss_signal=RawLoss(),
    features="vision",
    refresh_every=1,
    warmup_epochs=0,
    sampling="uniform",
)
