"""Co-training at a fixed ratio: what people do without BEACON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from beacon.errors import UserError
from beacon.methods.base import Indices, Method
from beacon.methods.sampling import mixed, shuffled


@dataclass(frozen=True)
class CoTrainingOptions:
    """Options of co-training."""

    ratio: float | Literal["natural"] = 0.9
    """Share of source samples in a mini-batch, or "natural": every window equally often. The paper does not
    state its ratio; 0.9 is that of the UOT baseline it builds on."""

    def __post_init__(self) -> None:
        if isinstance(self.ratio, str):
            if self.ratio != "natural":
                raise UserError(f"--ratio {self.ratio}: must be 'natural' or a number from 0 to 1")
        elif not 0 <= self.ratio <= 1:
            raise UserError(f"--ratio {self.ratio}: must be 'natural' or a number from 0 to 1")


class CoTraining(Method):
    """Draw every mini-batch from source and target at a fixed ratio, all samples weighing the same."""

    Options = CoTrainingOptions

    def batches(self, epoch: int) -> Indices:
        """Mixed windows, or with the natural ratio all windows shuffled."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        if self.options.ratio == "natural":
            everything = np.arange(len(context.windows))
            return shuffled(everything, epoch * count, count, context.seed).reshape(shape)
        source, target = context.source_windows, context.target_windows
        return mixed(source, target, self.options.ratio, count, context.seed, epoch).reshape(shape)
