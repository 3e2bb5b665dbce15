"""Co-training with features that are pulled together: energy distance, or multi-kernel MMD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from beacon.methods.balanced import check_cameras, check_ratio, check_share, check_strengths, target_count
from beacon.methods.base import Features, Indices, Method, MethodContext, choose_features

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


class Mmd(Method):
    """Clone source and target at a fixed ratio, and keep their features from being told apart."""

    Options = MmdOptions

    def __init__(self, options: MmdOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        check_cameras(context, "mmd")
        self._targets = target_count(context, options.target_share, most=1 - 2 / context.batch_size)
        size, targets = context.batch_size, self._targets
        # Mean over the batch of weight × loss = ratio · mean over source + (1 − ratio) · mean over target.
        self._weight = np.where(
            context.windows.domain == context.target,
            (1 - options.ratio) * size / targets,
            options.ratio * size / (size - targets),
        ).astype(np.float32)
        self._on_device: Tensor | None = None  # the same where the policy is

    def batches(self, epoch: int) -> Indices:
        """The same number of target windows in every mini-batch, the rest source, all drawn uniformly."""
        context = self.context
        rng = np.random.default_rng([context.seed, epoch])
        steps, targets = context.steps_per_epoch, self._targets
        target = rng.choice(context.target_windows, (steps, targets))
        source = rng.choice(context.source_windows, (steps, context.batch_size - targets))
        return np.concatenate([target, source], axis=1)

    def weights(self, index: Tensor) -> Tensor | None:
        """What brings the mix back to the ratio."""
        import torch

        if self._on_device is None or self._on_device.device != index.device:
            self._on_device = torch.from_numpy(self._weight).to(index.device)
        return self._on_device[index]

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """Strength × distance between the features of both sides."""
        from beacon.methods.auxiliary.feature_distance import feature_distance

        features = choose_features(encoding, self.options.features).float()
        on_target = batch.domain == self.context.target
        source, target = features[~on_target], features[on_target]
        strength: float = self.options.strength
        return strength * feature_distance(source, target, self.options.kernel)
