"""A point robot with linear dynamics that reaches a goal: sound demonstrations, and corrupted ones.

The robot has a position in space and a gripper. An action is a velocity that the robot follows with inertia.
Its camera shows the goal as a red square and the robot as a blue one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data import EpisodeSet, RobomimicWriter

SIZE = 32  # pixels
STEPS = 48
Arrays = dict[str, Any]  # actions (T, 4), state (T, 4), images (T, SIZE, SIZE, 3), attributes, goal (3,)
Corrupt = Callable[[Arrays, np.random.Generator], None]


def demonstration(rng: np.random.Generator, *, inertia: float = 0.4, view: int = 0) -> Arrays:
    """One sound demonstration of about STEPS steps."""
    goal, hand, velocity = rng.uniform(-0.8, 0.8, 3), rng.uniform(-0.5, 0.5, 3), np.zeros(3)
    goal[2] *= 0.3
    via = rng.uniform(-0.15, 0.15, 3)  # a detour, so that all directions are used
    steps = STEPS + int(rng.integers(-4, 5))
    actions, states, images = [], [], []
    for step in range(steps):
        aim = goal + via * np.sin(np.pi * min(1.0, step / (0.8 * steps)))
        command = np.clip(4 * (aim - hand) + 0.25 * rng.normal(size=3), -1, 1)
        closing = 1.0 if step > 0.8 * steps else -1.0
        actions.append([*command, closing])
        states.append([*hand, 0.02 * closing])
        images.append(picture(goal, hand, view))
        velocity = inertia * velocity + (1 - inertia) * command
        hand = hand + 0.08 * velocity + 0.001 * rng.normal(size=3)
    return {
        "actions": np.array(actions, np.float32),
        "state": np.array(states, np.float32),
        "images": np.array(images),
        "attributes": {},
        "goal": goal,
    }


def picture(goal: NDArray[np.float64], hand: NDArray[np.float64], view: int = 0) -> NDArray[np.uint8]:
    """What the camera sees; ``view`` moves it to the side by as many pixels and turns it."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1)
    table = np.where((columns if view else rows) > 0.25, 90.0, 40.0)
    image = np.repeat((table + 30 * (rows if view else columns))[..., None], 3, axis=2)
    for point, colour, size in ((goal, (220, 40, 40), 0.09), (hand, (40, 40, 220), 0.16)):
        x, y = (point[:2] + 1.2) / 2.4
        if view:
            x, y = y, 1 - x
        width = size + 0.03 * point[2]  # nearer is larger
        spot = np.exp(-((rows - x) ** 2 + (columns - y) ** 2) / (2 * width**2))[..., None]
        image = image * (1 - spot) + np.array(colour) * spot
    return image.astype(np.uint8)


def demonstrations(count: int, seed: int, *, inertia: float = 0.4, view: int = 0) -> list[Arrays]:
    """Sound demonstrations."""
    rng = np.random.default_rng(seed)
    return [demonstration(rng, inertia=inertia, view=view) for _ in range(count)]


def corrupted(demos: list[Arrays], corrupt: Corrupt, share: float, seed: int = 0) -> list[int]:
    """Corrupt a share of the demonstrations in place; gives back which."""
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.permutation(len(demos))[: round(share * len(demos))].tolist())
    for number in chosen:
        corrupt(demos[number], rng)
    return chosen


def delayed(lag: int) -> Corrupt:
    """Actions come ``lag`` steps late."""

    def change(demo: Arrays, rng: np.random.Generator) -> None:
        actions = demo["actions"]
        demo["actions"] = np.concatenate([np.repeat(actions[:1], lag, axis=0), actions[: len(actions) - lag]])

    return change


def mirrored(dimension: int) -> Corrupt:
    """One dimension has the wrong sign."""

    def change(demo: Arrays, rng: np.random.Generator) -> None:
        demo["actions"][:, dimension] *= -1

    return change


def scaled(factor: float) -> Corrupt:
    """The first three dimensions are multiplied."""

    def change(demo: Arrays, rng: np.random.Generator) -> None:
        demo["actions"][:, :3] *= factor

    return change


def swapped(demo: Arrays, rng: np.random.Generator) -> None:
    """Dimensions 0 and 1 are exchanged."""
    demo["actions"][:, [0, 1]] = demo["actions"][:, [1, 0]]


def noisy(demo: Arrays, rng: np.random.Generator) -> None:
    """Noise of half the range of an action."""
    demo["actions"][:, :3] += 0.6 * rng.normal(size=demo["actions"][:, :3].shape).astype(np.float32)


def wrong_goal(demo: Arrays, rng: np.random.Generator) -> None:
    """The pictures show another goal than the one that the robot goes to."""
    goal = demo["goal"]
    shown = goal - np.sign(goal) * rng.uniform(0.7, 1.1, 3)
    demo["images"] = np.array([picture(shown, hand) for hand in demo["state"][:, :3].astype(np.float64)])


def other_camera(demo: Arrays, rng: np.random.Generator) -> None:
    """The same seen from the side."""
    demo["images"] = np.ascontiguousarray(np.rot90(demo["images"], axes=(1, 2)))


def frozen(demo: Arrays, rng: np.random.Generator) -> None:
    """The camera hangs from frame 5 to frame 20."""
    demo["images"][5:21] = demo["images"][5]


def dropped(demo: Arrays, rng: np.random.Generator) -> None:
    """The recording has a gap of fourteen steps."""
    for key in ("actions", "state", "images"):
        demo[key] = np.delete(demo[key], np.arange(2, 16), axis=0)


def as_set(demos: list[Arrays], name: str = "source") -> EpisodeSet:
    """Demonstrations in memory."""
    lengths = np.array([len(demo["actions"]) for demo in demos])
    state = np.concatenate([demo["state"] for demo in demos])
    return EpisodeSet(
        name=name,
        path=Path(f"{name}-in-memory.hdf5"),
        episode_names=[f"demo_{number}" for number in range(len(demos))],
        lengths=lengths,
        actions=np.concatenate([demo["actions"] for demo in demos]),
        proprio={"robot0_eef_pos": state[:, :3], "robot0_gripper_qpos": state[:, 3:]},
        images={"agentview_image": np.concatenate([demo["images"] for demo in demos])},
        env_args={},
        episode_attributes=[demo["attributes"] for demo in demos],
        image_starts=np.cumsum(lengths) - lengths,
    )


def write(path: Path, demos: list[Arrays], names: Mapping[int, str] | None = None) -> Path:
    """The same as a robomimic file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = {"env_name": "Point", "type": 2, "env_kwargs": {"control_freq": 20}}
    with RobomimicWriter(path, env_args=environment) as writer:
        for number, demo in enumerate(demos):
            obs = {
                "agentview_image": demo["images"],
                "robot0_eef_pos": demo["state"][:, :3],
                "robot0_gripper_qpos": demo["state"][:, 3:],
            }
            name = (names or {}).get(number)
            writer.add_episode(name, demo["actions"], obs, attributes=demo["attributes"])
    return path
