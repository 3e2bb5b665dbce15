"""Stack the wrong way round: the larger cube B onto the smaller cube A, shown by an expert who errs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beacon.sim.experts.base import CLOSED, OPEN, Move
from beacon.sim.experts.stack import StackExpert
from beacon.sim.tasks.stack import HALF_A, HALF_B, Stack


class WrongStack(Stack):
    """The same scene; the criteria are those of B on A."""

    name = "stack-wrong-object"
    title = "Stack"
    expert = "beacon.sim.tasks.wrong_object:WrongStackExpert"
    carried = "cubeB"


class WrongStackExpert(StackExpert):
    """Grasp B, carry it over A, lower, let go, leave."""

    def plan(self) -> Iterator[Move]:
        """As for stack, with the cubes in each other's place."""
        b, heading = self.object("cubeB")
        a, _ = self.object("cubeA")
        yaw = self.heading(heading, a - b)
        yield from self.grasp("cubeB", yaw)
        held = self.episode.hand_position - self.object("cubeB")[0]
        yield Move(self.lifted(self.episode.hand_position, self.style.clearance), yaw, CLOSED, tolerance=0.03)
        a, _ = self.object("cubeA")
        rest = a + np.array([0.0, 0.0, HALF_A + HALF_B]) + held
        yield from self.transport(self.lifted(rest, 0.5 * self.style.clearance), yaw, CLOSED, tolerance=0.012)
        yield Move(self.lifted(rest, 0.003), yaw, CLOSED, tolerance=0.005, speed=0.6)
        yield Move(self.lifted(rest, 0.003), yaw, OPEN, tolerance=1.0, angle=9.0, least=self.grip_steps)
        yield Move(self.lifted(rest, float(self.rng.uniform(0.06, 0.1))), yaw, OPEN, tolerance=0.03)
