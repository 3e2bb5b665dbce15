"""Parts of a made-up method, for tests of how the command line chooses parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from beacon.errors import UserError
from beacon.plain import Part
from beacon.registry import Registry

METRICS: Registry[type[Metric]] = Registry("metric")
DISTANCES: Registry[type[Distance]] = Registry("distance")
CHECKS: Registry[type[Check]] = Registry("check")


class Metric(Part, registry=METRICS):
    """How two points are compared."""


@METRICS.register("euclidean")
@dataclass(frozen=True)
class Euclidean(Metric):
    """Has no options."""


@METRICS.register("minkowski")
@dataclass(frozen=True)
class Minkowski(Metric):
    """A family of metrics."""

    # Exponent of the differences.
    power: float = 3.0


class Distance(Part, registry=DISTANCES):
    """How far a sample is."""


@DISTANCES.register("nearest")
@dataclass(frozen=True)
class Nearest(Distance):
    """By neighbours."""

    # Neighbours to ask.
    k: int = 5
    # How neighbours are found.
    metric: Metric = field(default_factory=Euclidean)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k={self.k}: must be at least 1")


@DISTANCES.register("constant")
@dataclass(frozen=True)
class Constant(Distance):
    """The same for all."""

    # The distance.
    value: float = 1.0


class Check(Part, registry=CHECKS):
    """What makes a sample suspicious."""


@CHECKS.register("speed")
@dataclass(frozen=True)
class SpeedCheck(Check):
    """Too fast."""

    # Largest speed.
    limit: float = 2.0


@CHECKS.register("still")
@dataclass(frozen=True)
class StillCheck(Check):
    """Never moves."""

    # Steps without motion.
    steps: int = 10


@dataclass(frozen=True)
class Inner:
    """Options that are nested without a name."""

    # How far a sample is from the target.
    distance: Distance = field(default_factory=Nearest)


@dataclass(frozen=True)
class ToyOptions:
    """Options with parts."""

    inner: Annotated[Inner, tyro.conf.arg(name="")] = field(default_factory=Inner)
    # What makes a sample suspicious.
    checks: tuple[Check, ...] = (SpeedCheck(),)
    # Strength of it all.
    alpha: float = 0.5
