"""Experts for lift and stack."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.experts.base import CLOSED, OPEN, Expert, Move, nearest_turn


class LiftExpert(Expert):
    """Reach, grasp, raise."""

    def plan(self) -> Iterator[Move]:
        """Three phases."""
        cube, yaw = self.object("cube")
        yield from self.grasp("cube", nearest_turn(yaw, np.pi / 2))
        cube = self.episode.hand_position
        height = float(self.rng.uniform(0.08, 0.12))
        yield Move(self.lifted(cube, height), nearest_turn(yaw, np.pi / 2), CLOSED, tolerance=0.02)

    def grasp(self, name: str, yaw: float) -> Iterator[Move]:
        """Over the object, down, close."""
        position, _ = self.object(name)
        target = position + self.style.aim * np.array([1.0, 1.0, 0.6])
        yield from self.transport(self.above(target, self.style.clearance), yaw, OPEN, tolerance=0.015)
        yield Move(target, yaw, OPEN, tolerance=0.005, speed=0.6)
        yield Move(target, yaw, CLOSED, tolerance=1.0, angle=9.0, least=self.grip_steps)


class StackExpert(LiftExpert):
    """Grasp A, carry it over B, lower, let go, leave."""

    def plan(self) -> Iterator[Move]:
        """The hand's heading is A's, with the fingers where B is not."""
        a, heading = self.object("cubeA")
        b, _ = self.object("cubeB")
        yaw = self.heading(heading, b - a)
        yield from self.grasp("cubeA", yaw)
        held = self.episode.hand_position - self.object("cubeA")[0]
        yield Move(self.lifted(self.episode.hand_position, self.style.clearance), yaw, CLOSED, tolerance=0.03)
        b, _ = self.object("cubeB")
        rest = b + np.array([0.0, 0.0, 0.045]) + held
        yield from self.transport(self.lifted(rest, 0.5 * self.style.clearance), yaw, CLOSED, tolerance=0.012)
        yield Move(self.lifted(rest, 0.003), yaw, CLOSED, tolerance=0.005, speed=0.6)
        yield Move(self.lifted(rest, 0.003), yaw, OPEN, tolerance=1.0, angle=9.0, least=self.grip_steps)
        yield Move(self.lifted(rest, float(self.rng.uniform(0.06, 0.1))), yaw, OPEN, tolerance=0.03)

    def heading(self, cube: float, towards_b: Array) -> float:
        """Of the cube's four headings the nearest one whose fingers do not come down on B."""
        if self.episode.world.task.size.action_dim == 4:
            return 0.0
        best, cost = 0.0, np.inf
        for quarter in (-1, 0, 1):
            yaw = nearest_turn(cube, np.pi / 2) + quarter * np.pi / 2
            fingers = np.array([-np.sin(yaw), np.cos(yaw)])
            reach = np.linalg.norm(towards_b[:2])
            along = abs(fingers @ towards_b[:2]) / reach
            crowded = 4.0 * along if reach < 0.12 else 0.0
            if abs(yaw) < 1.75 and abs(yaw) + crowded < cost:
                best, cost = yaw, abs(yaw) + crowded
        return best
