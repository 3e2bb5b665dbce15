"""A method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beacon.methods import CoTraining, CoTrainingOptions


@dataclass(frozen=True)
class HalfAndHalfOptions(CoTrainingOptions):
    """Options of half-and-half."""

    ratio: float | Literal["natural"] = 0.5


class HalfAndHalf(CoTraining):
    """Half of every mini-batch from the source."""

    Options = HalfAndHalfOptions
