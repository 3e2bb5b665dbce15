"""Behaviour cloning on one side only: what there is without co-training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beacon.methods.base import Indices, Method
from beacon.methods.sampling import shuffled


@dataclass(frozen=True)
class NoOptions:
    """No options of its own."""


class _OneSide(Method):
    Options = NoOptions

    def _members(self) -> Indices:
        raise NotImplementedError

    def batches(self, epoch: int) -> Indices:
        """Shuffled windows of the one side."""
        context = self.context
        count = context.steps_per_epoch * context.batch_size
        drawn = shuffled(self._members(), epoch * count, count, context.seed)
        return drawn.reshape(context.steps_per_epoch, context.batch_size)


class TargetOnly(_OneSide):
    """Train on the target demonstrations alone."""

    needs_source: ClassVar[bool] = False

    def _members(self) -> Indices:
        return self.context.target_windows


class SourceOnly(_OneSide):
    """Train on the source demonstrations alone."""

    revision = 2  # without a target no camera is adapted to one
    needs_target: ClassVar[bool] = False

    def _members(self) -> Indices:
        return self.context.source_windows
