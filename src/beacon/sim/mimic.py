"""New demonstrations from a few: segments of seed demonstrations, moved along with the objects they concern.

In the manner of MimicGen (Mandlekar et al., 2023), written anew. A demonstration falls into subtasks, each
about one object. For a new scene, each subtask takes a segment of some seed demonstration and maps its hand
poses by ``T_new_object · T_seed_object^-1``; a short interpolation joins the segments; noise is added to
the actions; attempts that fail are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import h5py
import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.control import axis_angle, rotation_matrix
from beacon.sim.replay import check_same_task, demonstration_names
from beacon.sim.tasks import Subtask, Task
from beacon.sim.world import STEP, Episode, World

NEIGHBOURS = 3  # nearest object poses among which a segment is drawn
LEAST_INTERPOLATION = 5  # steps
REACH = 0.013  # metres that the hand comfortably covers in a control step
TURN = 0.12  # radians


@dataclass(frozen=True)
class SeedDemonstration:
    """Hand targets, gripper commands and object poses of one demonstration, with its subtask ends."""

    targets: Array  # (T, 4, 4) the poses that its actions asked for
    gripper: Array  # (T,)
    objects: dict[str, Array]  # name -> (T, 4, 4)
    ends: tuple[int, ...]  # first step at which each subtask's criterion holds; the last is T


@lru_cache(maxsize=4)
def load_source(path: str, world: World) -> tuple[SeedDemonstration, ...]:
    """All demonstrations of a robomimic file whose subtasks can be told apart."""
    check_same_task(path, world)
    episode = Episode(world)
    nq, nv = world.model.nq, world.model.nv
    demonstrations: list[SeedDemonstration] = []
    with h5py.File(path, "r") as file:
        for name in demonstration_names(path):
            group = file["data"][name]
            states, actions = group["states"][:], group["actions"][:]
            targets = np.tile(np.eye(4), (len(states), 1, 1))
            objects = {key: np.empty((len(states), 4, 4)) for key in world.task.bodies}
            criteria = []
            for step, (state, action) in enumerate(zip(states, actions, strict=True)):
                episode.restore(state[1 : 1 + nq], state[1 + nq : 1 + nq + nv], state[0])
                targets[step] = commanded_pose(episode, action)
                for key, poses in objects.items():
                    poses[step] = world.pose(episode.data, key)
                criteria.append(episode.criteria())
            ends = subtask_ends(world.task, criteria)
            if ends is not None:
                demonstrations.append(SeedDemonstration(targets, actions[:, -1], objects, ends))
    if not demonstrations:
        raise UserError(f"no demonstration in {path} completes the subtasks of {world.task.name}")
    return tuple(demonstrations)


def commanded_pose(episode: Episode, action: Array) -> Array:
    """The hand pose that an action asks for in the present state, (4, 4)."""
    pose = np.eye(4)
    pose[:3, 3] = episode.hand_position + STEP[:3] * action[:3]
    if len(action) == 4:
        pose[:3, :3] = episode.world.nominal_rotation
    else:
        pose[:3, :3] = rotation_matrix(STEP[3:] * action[3:6]) @ episode.hand_rotation
    return pose


def subtask_ends(task: Task, criteria: list[dict[str, bool]]) -> tuple[int, ...] | None:
    """The step after which each subtask is over, or None if one never is."""
    ends: list[int] = []
    start = 0
    for subtask in task.subtasks:
        if subtask.until is None:
            ends.append(len(criteria))
            continue
        reached = [step for step in range(start, len(criteria)) if criteria[step][subtask.until]]
        if not reached:
            return None
        start = reached[0] + 1
        ends.append(start)
    return tuple(ends)


class MimicActor:
    """Plays transformed segments; call it for the next action, None when the last segment is over."""

    def __init__(
        self, source: tuple[SeedDemonstration, ...], episode: Episode, rng: np.random.Generator, noise: float
    ) -> None:
        self.source = source
        self.episode = episode
        self.rng = rng
        self.noise = noise
        self.chosen: list[int] = []
        self._subtask = 0
        self._queue: list[tuple[Array, float, bool]] = []  # target, gripper, noisy
        self._last: Array | None = None
        self._gripper = -1.0
        self._start = 0
        # Drawn before anything else, so that every episode uses its stream alike.
        self._only = int(rng.integers(len(source)))

    def __call__(self) -> Array | None:
        """The next action, float32."""
        if not self._queue and not self._next_segment():
            return None
        target, gripper, noisy = self._queue.pop(0)
        self._last, self._gripper = target, gripper
        delta = (target[:3, 3] - self.episode.hand_position) / STEP[:3]
        if self.episode.world.task.size.action_dim == 7:
            turn = axis_angle(target[:3, :3] @ self.episode.hand_rotation.T) / STEP[3:]
            delta = np.concatenate([delta, turn])
        if noisy:
            delta = np.clip(delta, -1, 1) + self.noise * self.rng.standard_normal(len(delta))
        action = np.concatenate([np.clip(delta, -1.0, 1.0), [gripper]])
        return np.asarray(action, dtype=np.float32)

    def _next_segment(self) -> bool:
        task = self.episode.world.task
        if self._subtask >= len(task.subtasks):
            return False
        subtask = task.subtasks[self._subtask]
        now = self.episode.world.pose(self.episode.data, subtask.object)
        index = self._select(subtask, now)
        demonstration = self.source[index]
        self.chosen.append(index)
        start, end = self._bounds(demonstration)
        then = demonstration.objects[subtask.object][start]
        moved = (now @ np.linalg.inv(then)) @ demonstration.targets[start:end]
        first = self._last if self._last is not None else self._present_pose()
        gripper = self._gripper
        joined = [(pose, gripper, False) for pose in interpolate(first, moved[0])]
        grips = demonstration.gripper[start:end]
        self._queue = joined + [(pose, float(grip), True) for pose, grip in zip(moved, grips, strict=True)]
        self._subtask += 1
        return True

    def _select(self, subtask: Subtask, now: Array) -> int:
        task = self.episode.world.task
        if task.selection == "random" or len(self.source) == 1:
            return self._only
        starts = [self._bounds_plain(demo)[0] for demo in self.source]
        poses = np.stack([d.objects[subtask.object][s] for d, s in zip(self.source, starts, strict=True)])
        offset = np.linalg.norm(poses[:, :3, 3] - now[:3, 3], axis=1)
        turned = Rotation.from_matrix(poses[:, :3, :3] @ now[:3, :3].T).magnitude()
        # A radian counts as much as ten centimetres.
        nearest = np.argsort(offset + 0.1 * turned, kind="stable")[:NEIGHBOURS]
        return int(self.rng.choice(nearest))

    def _bounds_plain(self, demonstration: SeedDemonstration) -> tuple[int, int]:
        ends = demonstration.ends
        start = 0 if self._subtask == 0 else ends[self._subtask - 1]
        return start, ends[self._subtask]

    def _bounds(self, demonstration: SeedDemonstration) -> tuple[int, int]:
        """The segment, its end drawn a little after the criterion; it starts where the last one ended."""
        start, end = self._bounds_plain(demonstration)
        if self._subtask > 0:
            start = min(start + self._start, end - 1)
        length = len(demonstration.targets)
        if end < length:
            low, high = self.episode.world.task.subtasks[self._subtask].offset
            following = demonstration.ends[self._subtask + 1]
            self._start = int(self.rng.integers(low, high + 1))
            self._start = max(0, min(self._start, following - end - 2))
            end += self._start
        return start, min(end, length)

    def _present_pose(self) -> Array:
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = self.episode.hand_rotation, self.episode.hand_position
        return pose


def interpolate(first: Array, last: Array) -> list[Array]:
    """Poses from ``first`` (left out) to ``last`` (included), at least five and at the arm's own pace."""
    distance = float(np.linalg.norm(last[:3, 3] - first[:3, 3]))
    rotations = Rotation.from_matrix(np.stack([first[:3, :3], last[:3, :3]]))
    angle = float((rotations[1] * rotations[0].inv()).magnitude())
    steps = max(LEAST_INTERPOLATION, int(np.ceil(distance / REACH)), int(np.ceil(angle / TURN)))
    shares = np.linspace(0.0, 1.0, steps + 1)[1:]
    between = Slerp([0.0, 1.0], rotations)(shares).as_matrix()
    poses = np.tile(np.eye(4), (steps, 1, 1))
    poses[:, :3, :3] = between
    poses[:, :3, 3] = first[:3, 3] + shares[:, None] * (last[:3, 3] - first[:3, 3])
    return list(poses)
