"""A distance between the features of source and target windows: energy distance, or multi-kernel MMD."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from beacon.errors import UserError
from beacon.methods.auxiliary.base import AUXILIARY_LOSSES, AuxiliaryLoss, BuiltAuxiliaryLoss
from beacon.methods.base import Features, choose_features

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.methods.base import MethodContext
    from beacon.policy import Encoding

Kernel = Literal["energy", "energy-unbiased", "rbf"]


@AUXILIARY_LOSSES.register("feature-distance")
@dataclass(frozen=True)
class FeatureDistance(AuxiliaryLoss):
    """Keep the features of both domains from being told apart, as ``--method mmd`` does.

    It compares the windows of a mini-batch; one with fewer than two of either side adds nothing.
    """

    # Strength of the distance.
    strength: float = 0.01
    # "energy" distance; without pairs of a window with itself, which small batches need ("energy-unbiased");
    # or "rbf" kernels.
    kernel: Kernel = "energy-unbiased"
    # Features that are compared: of the images alone, or of the whole observation.
    features: Features = "vision"

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise UserError(f"strength {self.strength}: must be at least 0, and finite")

    def build(self, context: MethodContext) -> BuiltAuxiliaryLoss | None:
        """None where it has no strength or there is no target."""
        if not self.strength or not len(context.target_windows):
            return None
        return _FeatureDistance(self, context.target)


class _FeatureDistance(BuiltAuxiliaryLoss):
    def __init__(self, options: FeatureDistance, target: int) -> None:
        self._options, self._target = options, target

    def loss(self, batch: WindowBatch, encoding: Encoding) -> Tensor:
        features = choose_features(encoding, self._options.features).float()
        on_target, on_source = batch.rows(self._target)
        source, target = features[on_source], features[on_target]
        if min(len(source), len(target)) < 2:
            return features.sum() * 0.0
        return self._options.strength * feature_distance(source, target, self._options.kernel)


def feature_distance(source: Tensor, target: Tensor, kernel: Kernel) -> Tensor:
    """The distance between two sets of features, (m, F) and (n, F)."""
    from beacon.methods.losses import energy_distance, multi_kernel_mmd

    if kernel == "rbf":
        return multi_kernel_mmd(source, target)
    return energy_distance(source, target, unbiased=kernel == "energy-unbiased")
