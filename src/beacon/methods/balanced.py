"""What methods with a feature loss share: enough windows of both sides, without changing what is cloned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beacon.devices import upload
from beacon.errors import UserError
from beacon.methods.base import Indices, Method, MethodContext

if TYPE_CHECKING:
    from torch import Tensor


def target_count(context: MethodContext, share: float, *, most: float) -> int:
    """Target windows in a mini-batch: ``share`` of it, at least two, and at most ``most`` of it."""
    count, limit = max(2, round(share * context.batch_size)), int(most * context.batch_size)
    if limit < 2:
        raise UserError(f"--batch-size {context.batch_size}: too small for a feature loss; take 8 or more")
    return min(count, limit)


def balanced_batches(context: MethodContext, targets: int, epoch: int) -> Indices:
    """``targets`` target windows in every mini-batch, then source windows, all drawn uniformly."""
    rng = np.random.default_rng([context.seed, epoch])
    target = rng.choice(context.target_windows, (context.steps_per_epoch, targets))
    source = rng.choice(context.source_windows, (context.steps_per_epoch, context.batch_size - targets))
    return np.concatenate([target, source], axis=1)


class BalancedCoTraining(Method):
    """Clone source and target at a fixed ratio, from mini-batches with enough target windows.

    Options of subclasses have ``ratio``, the share of the source in what is cloned, and ``target_share``, the
    share of target windows in a mini-batch.
    """

    def __init__(self, options: Any, context: MethodContext) -> None:
        super().__init__(options, context)
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
        return balanced_batches(self.context, self._targets, epoch)

    def weights(self, index: Tensor) -> Tensor | None:
        """What brings the mix back to the ratio."""
        import torch

        if self._on_device is None or self._on_device.device != index.device:
            self._on_device = upload(torch.from_numpy(self._weight), index.device)
        return self._on_device[index]


def check_share(share: float) -> None:
    """Refuse a share of target windows that leaves nothing for one side."""
    if not 0 < share < 1:
        raise UserError(f"--target-share {share}: must be above 0 and below 1")


def check_strengths(**strengths: float) -> None:
    """Refuse negative strengths, by the name of their option."""
    for name, value in strengths.items():
        if not value >= 0:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 0")


def check_ratio(ratio: float) -> None:
    """Refuse a share of source samples that is none."""
    if not 0 <= ratio <= 1:
        raise UserError(f"--ratio {ratio}: must be a number from 0 to 1")


def check_cameras(context: MethodContext, method: str) -> None:
    """A feature loss can only move features that are learned, and those are of images."""
    if not context.windows.sets[0].images:
        raise UserError(f"--method {method} aligns image features, and there are no cameras")
