"""Corruptions of demonstrations that benchmarks/audit.py injects, and what the audit should call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from beacon.audit.evidence import Repair

Actions = NDArray[np.float32]
ChangeActions = Callable[[Actions, np.random.Generator], Actions]
CLEAN, WRONG_OBJECT, DUPLICATES = "clean", "wrong object", "duplicates"


def late(steps: int) -> ChangeActions:
    """Actions that come so many steps late."""
    return lambda actions, _: np.concatenate([np.repeat(actions[:1], steps, axis=0), actions[:-steps]])


def times(factors: dict[int, float]) -> ChangeActions:
    """Actions with some dimensions multiplied."""

    def change(actions: Actions, _: np.random.Generator) -> Actions:
        scale = np.ones(actions.shape[1], np.float32)
        for dimension, factor in factors.items():
            scale[dimension] = factor
        return actions * scale

    return change


def swap(actions: Actions, _: np.random.Generator) -> Actions:
    """Dimensions 0 and 1 exchanged."""
    return actions[:, [1, 0, *range(2, actions.shape[1])]]


def noise(actions: Actions, rng: np.random.Generator) -> Actions:
    """Noise on all dimensions but the gripper."""
    noisy = actions.copy()
    noisy[:, :-1] += 0.5 * rng.normal(size=noisy[:, :-1].shape).astype(np.float32)
    return np.clip(noisy, -1, 1)


ACTIONS: dict[str, tuple[str, ChangeActions]] = {
    "late by 2": ("lag", late(2)),
    "late by 4": ("lag", late(4)),
    "late by 8": ("lag", late(8)),
    "x mirrored": ("sign", times({0: -1})),
    "y mirrored": ("sign", times({1: -1})),
    "z mirrored": ("sign", times({2: -1})),
    "half as large": ("scale", times({0: 0.5, 1: 0.5, 2: 0.5})),
    "twice as large": ("scale", times({0: 2, 1: 2, 2: 2})),
    "x and y swapped": ("permutation", swap),
    "noise": ("actions", noise),
}
# What undoes a corruption; kinds without one have no size.
SIZES: dict[str, Callable[[Repair], bool]] = {
    **{f"late by {lag}": partial(lambda repair, lag: repair.lag == lag, lag=lag) for lag in (2, 4, 8)},
    **{
        f"{axis} mirrored": partial(
            lambda repair, d: [n for n, sign in enumerate(repair.signs) if sign < 0] == [d], d=dimension
        )
        for dimension, axis in enumerate("xyz")
    },
    "half as large": lambda repair: bool(0.4 <= np.median(repair.scale[:3]) <= 0.6),
    "twice as large": lambda repair: bool(1.6 <= np.median(repair.scale[:3]) <= 2.4),
    "x and y swapped": lambda repair: repair.order[:3] == (1, 0, 2),
}
KINDS = {name: kind for name, (kind, _) in ACTIONS.items()} | {
    "dropped frames": "dropped frames",
    "frozen frames": "frozen frames",
    "turned camera": "another camera",
    WRONG_OBJECT: "another goal",
    DUPLICATES: "duplicate",
}
