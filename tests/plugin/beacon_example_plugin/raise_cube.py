"""A task in one file: the cube is to be raised higher than in lift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beacon.sim.experts.base import Move
from beacon.sim.experts.stack import LiftExpert
from beacon.sim.tasks.base import TABLE_HEIGHT
from beacon.sim.tasks.lift import Lift


class RaiseCube(Lift):
    """Raise the cube's centre 6 cm above the table."""

    name = "raise-cube"
    expert = "beacon_example_plugin.raise_cube:RaiseExpert"
    reported = ("success",)

    def criteria(self, world: Any, data: Any) -> dict[str, bool]:
        """As for lift, but higher."""
        height = float(data.xpos[world.body("cube_main"), 2])
        return {**super().criteria(world, data), "lifted": height > TABLE_HEIGHT + 0.06}


class RaiseExpert(LiftExpert):
    """Lift's expert raises it high enough."""


class HastyExpert(RaiseExpert):
    """The same without any pause."""

    tail = 0

    def plan(self) -> Iterator[Move]:
        """As the careful one."""
        return super().plan()
