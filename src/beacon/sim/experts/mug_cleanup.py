"""The expert for mug cleanup."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.experts.base import CLOSED, OPEN, Expert, Move, about_vertical, nearest_turn
from beacon.sim.tasks.base import TABLE_HEIGHT
from beacon.sim.tasks.mug_cleanup import Furniture, MugCleanup

ACROSS = np.pi / 2  # the hand's yaw with the fingers along x, so that it is thin where the cabinet is


class MugCleanupExpert(Expert):
    """Hook the bar with closed fingers and pull; fetch the mug; push the bar back."""

    @property
    def furniture(self) -> Furniture:
        """The task's dimensions."""
        task = self.episode.world.task
        assert isinstance(task, MugCleanup)
        return task.furniture

    def plan(self) -> Iterator[Move]:
        """Open; grasp; place; close."""
        yield from self.open_drawer()
        yield from self.fetch_mug()
        yield from self.close_drawer()

    def bar(self) -> Array:
        """Where the middle of the handle's bar is now."""
        data, world = self.episode.data, self.episode.world
        return np.asarray(data.geom_xpos[world.geom("drawer_bar")].copy())

    def open_drawer(self) -> Iterator[Move]:
        """Down into the gap behind the bar, then towards -y."""
        f = self.furniture
        aim = np.array([2.0 * self.style.aim[0], self.style.aim[1], 0.0])
        gap = self.bar() + np.array([0.0, f.handle / 2 - 0.004, 0.004]) + aim
        above = self.lifted(gap, self.style.clearance)
        yield from self.transport(above, ACROSS, CLOSED, tolerance=0.016)
        yield Move(gap, ACROSS, CLOSED, tolerance=0.01)
        # The fingers meet the bar half a gap further on.
        pull = float(self.rng.uniform(0.9, 0.97)) * f.travel + f.handle / 2 - 0.018
        out = gap - np.array([0.0, pull, 0.0])
        yield Move(out, ACROSS, CLOSED, tolerance=0.01, most=50)
        # Off the bar while going up.
        yield Move(out + np.array([0.0, 0.012, 0.05]), ACROSS, CLOSED, tolerance=0.02, angle=1.0)

    def fetch_mug(self) -> Iterator[Move]:
        """Across the mug, square to its handle, up, over the drawer, down, let go."""
        f = self.furniture
        mug, heading = self.object("mug")
        # The fingers must come down beside the handle: their axis square to it.
        yaw = self.grasp_yaw(heading)
        rim = f.mug_height / 2 - 0.016
        target = mug + np.array([0.0, 0.0, rim]) + self.style.aim
        high = self.lifted(target, self.style.clearance) + 0.4 * np.array([*self.style.approach, 0.0])
        yield from self.transport(high, yaw, OPEN, tolerance=0.009)
        yield Move(target, yaw, OPEN, tolerance=0.005, speed=0.6)
        yield Move(target, yaw, CLOSED, tolerance=1.0, angle=9.0, least=self.grip_steps)
        held = self.episode.hand_position - self.object("mug")[0]
        # The mug's foot must pass over the drawer's front.
        over = 0.105 + float(self.rng.uniform(0.0, 0.015))
        yield Move(self.lifted(self.episode.hand_position, over), yaw, CLOSED, tolerance=0.02, angle=1.0)
        turn = self.place_yaw(yaw) - yaw
        rest = self.inside(self.object("mug")[1] + turn) + about_vertical(turn) @ held
        yield from self.transport(self.lifted(rest, 0.09), self.place_yaw(yaw), CLOSED, tolerance=0.015)
        yield Move(self.lifted(rest, 0.004), self.place_yaw(yaw), CLOSED, tolerance=0.006, speed=0.7)
        yield Move(
            self.lifted(rest, 0.004),
            self.place_yaw(yaw),
            OPEN,
            tolerance=1.0,
            angle=9.0,
            least=self.grip_steps,
        )
        yield Move(self.lifted(rest, 0.07), self.place_yaw(yaw), OPEN, tolerance=0.03)

    def inside(self, heading: float) -> Array:
        """Where the mug's centre shall be: before the cabinet, with room for its handle on either side."""
        f = self.furniture
        mouth = f.cabinet[1] - f.depth
        y = mouth - (0.043 if np.sin(heading) < 0 else 0.066)
        x = f.cabinet[0] + float(self.rng.uniform(-0.02, 0.02))
        return np.array([x, y, TABLE_HEIGHT + 0.014 + f.mug_height / 2])

    def close_drawer(self) -> Iterator[Move]:
        """In front of the bar, down, push until the drawer stops, and up."""
        f = self.furniture
        start = self.bar() + np.array([2.0 * self.style.aim[0], -0.035, 0.004])
        yield from self.transport(self.lifted(start, 0.06), ACROSS, CLOSED, tolerance=0.03)
        yield Move(start, ACROSS, CLOSED, tolerance=0.015)
        shut = f.cabinet[1] - f.depth - 0.006 - f.handle
        # The fingers' own thickness stops them before the bar's middle; ask for a little more than that.
        end = np.array([start[0], shut - 0.008, start[2]])
        yield Move(end, ACROSS, CLOSED, tolerance=0.007, speed=0.9, most=24)

    def grasp_yaw(self, heading: float) -> float:
        """Fingers square to the mug's handle, the hand turned as little as possible from ACROSS."""
        if self.episode.world.task.size.action_dim == 4:
            return ACROSS
        return nearest_turn(heading, np.pi, reference=ACROSS - 0.5)

    def place_yaw(self, yaw: float) -> float:
        """Thin towards the cabinet again."""
        return yaw if self.episode.world.task.size.action_dim == 4 else ACROSS
