"""Co-training with features that are pulled together: energy distance, or multi-kernel MMD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from beacon.methods.balanced import (
    BalancedCoTraining,
    check_cameras,
    check_ratio,
    check_share,
    check_strengths,
)
from beacon.methods.base import Features, MethodContext, choose_features

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.policy import Encoding


@dataclass(frozen=True)
class MmdOptions:
    """Options of co-training with an MMD between source and target features."""

    # Share of the source in what is cloned: the loss is ratio·L_source + (1 − ratio)·L_target.
    ratio: float = 0.9
    # Strength of the distance between features; public implementations: 0.1, the paper is silent.
    strength: float = 0.1
    # "energy" distance, as the public implementations have it; without pairs of a window with itself, which
    # small batches need ("energy-unbiased"); or the "rbf" kernels of the paper's citation.
    kernel: Literal["energy", "energy-unbiased", "rbf"] = "energy"
    # Features that are compared: of the images alone, or of the whole observation.
    features: Features = "vision"
    # Share of target windows in a mini-batch, so that there are enough to compare with. What is cloned stays
    # as --ratio says: losses are weighted accordingly. UOT's configuration has 0.5.
    target_share: float = 0.25

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        check_share(self.target_share)
        check_strengths(strength=self.strength)


class Mmd(BalancedCoTraining):
    """Clone source and target at a fixed ratio, and keep their features from being told apart."""

    Options = MmdOptions

    def __init__(self, options: MmdOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        check_cameras(context, "mmd")

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """Strength × distance between the features of both sides."""
        from beacon.methods.auxiliary.feature_distance import feature_distance

        features = choose_features(encoding, self.options.features).float()
        on_target, on_source = batch.rows(self.context.target)
        source, target = features[on_source], features[on_target]
        strength: float = self.options.strength
        return strength * feature_distance(source, target, self.options.kernel)
