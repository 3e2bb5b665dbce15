"""The expert for threading."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.experts.base import CLOSED, OPEN, Expert, Move, nearest_turn
from beacon.sim.tasks.threading import SHAFT_CENTRE, SHAFT_HALF


class ThreadingExpert(Expert):
    """Grasp the needle's thick end, line it up before the ring, push it through."""

    aim = 0.002

    def plan(self) -> Iterator[Move]:
        """Grasp; insert."""
        needle, heading = self.object("needle")
        # The hand's yaw equals the needle's, up to half a turn; near +90 degrees the wrist has room.
        yaw = nearest_turn(heading, np.pi, reference=np.pi / 2)
        along = np.array([np.cos(heading), np.sin(heading), 0.0])
        target = needle - 0.004 * along + self.style.aim
        yield from self.transport(self.above(target, self.style.clearance), yaw, OPEN, tolerance=0.012)
        yield Move(target, yaw, OPEN, tolerance=0.005, speed=0.6)
        yield Move(target, yaw, CLOSED, tolerance=1.0, angle=9.0, least=self.grip_steps)
        yield Move(self.lifted(self.episode.hand_position, 0.07), yaw, CLOSED, tolerance=0.03)
        yield from self.insert()

    def insert(self) -> Iterator[Move]:
        """Needle square to the ring's plane, tip a little before it; then along -y."""
        data, world = self.episode.data, self.episode.world
        centre = data.site_xpos[world.site("ring_centre")].copy()
        _, heading = self.object("needle")
        yaw = np.pi / 2
        turning = world.task.size.action_dim == 7
        # Where the hand must be for the shaft's middle to lie in the ring, given how the needle is held.
        pose = world.pose(data, "needle")
        axis, position = pose[:3, 0], pose[:3, 3]
        hold = self.episode.hand_position - position
        if turning:
            turn = nearest_turn(-np.pi / 2 - heading, 2 * np.pi)
            c, s = np.cos(turn), np.sin(turn)
            spin = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
            axis, hold = spin @ axis, spin @ hold
        goal = centre - SHAFT_CENTRE * axis + hold
        before = goal + np.array([0.0, SHAFT_HALF[0] + 0.02, 0.0])
        yield from self.transport(before, yaw, CLOSED, tolerance=0.006, angle=0.04, speed=0.9, most=60)
        goal = self.corrected(centre)
        yield Move(goal, yaw, CLOSED, tolerance=0.006, speed=0.6, most=50)

    def corrected(self, centre: Array) -> Array:
        """The same goal from how the needle is held now, a few millimetres further in."""
        pose = self.episode.world.pose(self.episode.data, "needle")
        shaft = pose[:3, 3] + SHAFT_CENTRE * pose[:3, 0]
        return np.asarray(self.episode.hand_position + (centre - shaft) - np.array([0.0, 0.004, 0.0]))
