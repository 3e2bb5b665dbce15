"""Scripted experts: a plan of moves over exact poses, driven smoothly, with a person's variation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.control import axis_angle
from beacon.sim.simulation import SimulatedEpisode
from beacon.sim.world import STEP, Episode

OPEN, CLOSED = -1.0, 1.0
DOWN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # hand down, fingers along world y


def about_vertical(yaw: float) -> Array:
    """Rotation about the vertical axis, (3, 3)."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def yaw_of(rotation: Array) -> float:
    """The heading of a body's x axis."""
    return float(np.arctan2(rotation[1, 0], rotation[0, 0]))


def nearest_turn(yaw: float, symmetry: float, reference: float = 0.0) -> float:
    """The angle equal to ``yaw`` up to multiples of ``symmetry`` that is nearest to ``reference``."""
    return float(yaw - symmetry * np.round((yaw - reference) / symmetry))


@dataclass(frozen=True)
class Move:
    """Go to a place and stay there for a moment."""

    position: Array  # (3,) of the point between the finger tips
    yaw: float = 0.0  # of the hand; ignored by 4-D actions
    gripper: float = OPEN
    tolerance: float = 0.01  # metres
    angle: float = 0.06  # radians
    speed: float = 1.0  # largest action component
    least: int = 0  # steps that it lasts at least, for the fingers to move
    most: int = 40


@dataclass(frozen=True)
class Style:
    """How one demonstrator does it this time."""

    pace: float  # scales every move's speed
    clearance: float  # metres above an object before going down
    approach: Array  # (2,) metres, how far beside the object the hand is before it goes down
    aim: Array  # (3,) metres, the grasp's offset from the ideal one
    sway: Array  # (2,) metres, sideways bend of the long moves
    noise: float  # standard deviation added to every action component but the gripper's

    @staticmethod
    def draw(rng: np.random.Generator, noise: float, aim: float = 0.003) -> Style:
        """A random style."""
        return Style(
            pace=float(rng.uniform(0.8, 1.0)),
            clearance=float(rng.uniform(0.06, 0.09)),
            approach=rng.uniform(-0.018, 0.018, size=2),
            aim=rng.uniform(-aim, aim, size=3),
            sway=rng.uniform(-0.015, 0.015, size=2),
            noise=noise,
        )


class Demonstrator(ABC):
    """Shows the task once: one object an episode, asked for action after action."""

    @abstractmethod
    def __init__(self, episode: SimulatedEpisode, rng: np.random.Generator, noise: float = 0.05) -> None:
        """Begin.

        Args:
            episode: in which it acts.
            rng: its random numbers.
            noise: standard deviation added to actions.
        """

    @abstractmethod
    def act(self) -> Array | None:
        """The next action, float32 as it will be stored; None after the end."""


class Expert(Demonstrator):
    """Follows :meth:`plan`; ``act`` returns None when the plan is over."""

    aim = 0.003  # metres of grasp variation that the task forgives
    tail = 3  # steps to hold still after the last move, so that the end state is in the demonstration

    def __init__(self, episode: SimulatedEpisode, rng: np.random.Generator, noise: float = 0.05) -> None:
        assert isinstance(episode, Episode)
        self.episode = episode
        self.rng = rng
        self.style = Style.draw(rng, noise, self.aim)
        self._moves = self.plan()
        self._move: Move | None = next(self._moves)
        self._taken = 0
        self._left = self.tail
        self._command = np.zeros(6)

    @abstractmethod
    def plan(self) -> Iterator[Move]:
        """The moves; code between two of them sees the world as it is then."""

    def object(self, name: str) -> tuple[Array, float]:
        """Position and heading of one of the task's objects."""
        pose = self.episode.world.pose(self.episode.data, name)
        return pose[:3, 3].copy(), yaw_of(pose[:3, :3])

    def act(self) -> Array | None:
        """The next action, float32 as it will be stored; None after the end."""
        while self._move is not None and self._arrived(self._move):
            following = next(self._moves, None)
            if following is None:
                if self._left == 0:
                    return None
                self._left -= 1
                break
            self._move, self._taken = following, 0
        move = self._move
        assert move is not None
        self._taken += 1
        command = self._towards(move)
        # A first-order filter: people neither start nor stop at once.
        self._command += 0.6 * (command - self._command)
        motion = self._command + self.style.noise * self.rng.standard_normal(6)
        if self.episode.world.task.size.action_dim == 4:
            motion = motion[:3]
        action = np.concatenate([np.clip(motion, -1.0, 1.0), [move.gripper]])
        return action.astype(np.float32)

    def _towards(self, move: Move) -> Array:
        """The noise-free command, (6,) in action units."""
        limit = move.speed * self.style.pace
        delta = 1.6 * (move.position - self.episode.hand_position) / STEP[:3]
        delta *= min(1.0, limit / max(float(np.abs(delta).max()), 1e-9))
        if self.episode.world.task.size.action_dim == 4:
            return np.concatenate([delta, np.zeros(3)])
        wanted = about_vertical(move.yaw) @ DOWN
        turn = axis_angle(wanted @ self.episode.hand_rotation.T) / STEP[3:]
        turn *= min(1.0, 0.8 * limit / max(float(np.abs(turn).max()), 1e-9))
        return np.concatenate([delta, turn])

    def _arrived(self, move: Move) -> bool:
        if self._taken < move.least:
            return False
        if self._taken >= move.most:
            return True
        if np.linalg.norm(move.position - self.episode.hand_position) > move.tolerance:
            return False
        if self.episode.world.task.size.action_dim == 4:
            return True
        wanted = about_vertical(move.yaw) @ DOWN
        return float(np.linalg.norm(axis_angle(wanted @ self.episode.hand_rotation.T))) < move.angle

    @property
    def grip_steps(self) -> int:
        """Control steps until the fingers, from open, press with all their force."""
        return int(np.ceil(2.0 / self.episode.world.task.size.gripper_speed)) + 1

    def lifted(self, position: Array, height: float) -> Array:
        """The same place, ``height`` metres higher."""
        return np.asarray(position + np.array([0.0, 0.0, height]))

    def above(self, position: Array, height: float) -> Array:
        """Over a place, as far beside it as this demonstrator comes."""
        return np.asarray(position + np.array([*self.style.approach, height]))

    def bent(self, position: Array) -> Array:
        """A via point, moved sideways by the demonstrator's sway."""
        return np.asarray(position + np.array([self.style.sway[0], self.style.sway[1], 0.0]))

    def transport(self, target: Array, yaw: float, gripper: float, **options: Any) -> Iterator[Move]:
        """A long move with a bend in the middle."""
        start = self.episode.hand_position
        if np.linalg.norm(target[:2] - start[:2]) > 0.1:
            middle = self.bent((start + target) / 2)
            middle[2] = max(start[2], target[2])
            yield Move(middle, yaw, gripper, tolerance=0.05, angle=1.0)
        yield Move(target, yaw, gripper, **options)
