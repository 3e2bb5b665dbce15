"""Where most of a set is wrong, the target tells, though what is wrong costs little misfit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from beacon.audit.dynamics import check_dynamics
from beacon.audit.dynamics_model import DynamicsOptions
from beacon.audit.recordings import Recording

STEPS, DEMOS, WRONG = 90, 50, 30
Actions = NDArray[np.float32]


def recordings(count: int, seed: int, rates: tuple[float, ...]) -> list[Recording]:
    """A robot that follows smooth actions by a tenth a step; the first axis moves more or less, or hardly."""
    rng = np.random.default_rng(seed)
    nothing = np.zeros((STEPS, 0), np.float32)
    demos = []
    for number in range(count):
        times = np.arange(STEPS)[:, None] / STEPS
        size = np.array([rng.uniform(0.2, 0.6), 1.0, 1.0])
        waves = (np.sin(2 * np.pi * (rate * times + rng.uniform(size=3))) for rate in rates)
        actions = size * np.asarray(sum(waves)) + 0.05 * rng.normal(size=(STEPS, 3))
        speed = np.zeros((STEPS, 3))
        for step in range(1, STEPS):
            speed[step] = 0.9 * speed[step - 1] + 0.1 * actions[step - 1]
        state = np.cumsum(speed, axis=0) + rng.uniform(0.02, 0.1) * rng.normal(size=(STEPS, 3))
        arrays = (state.astype(np.float32), actions.astype(np.float32), nothing, nothing[0])
        demos.append(Recording(f"demo_{number}", *arrays, np.zeros(STEPS, np.float32), None))
    return demos


def late(actions: Actions) -> Actions:
    return np.concatenate([np.repeat(actions[:1], 2, axis=0), actions[:-2]])


def mirrored(actions: Actions) -> Actions:
    return actions * np.array([-1, 1, 1], np.float32)


@pytest.mark.parametrize(
    ("change", "kind", "rates"), [(late, "lag", (1.0, 1.5, 2.0)), (mirrored, "sign", (0.5, 1.0, 1.5))]
)
@pytest.mark.parametrize("seed", range(3))
def test_found_where_most_are_wrong(
    change: Callable[[Actions], Actions], kind: str, rates: tuple[float, ...], seed: int
) -> None:
    demos, target = recordings(DEMOS, seed, rates), recordings(10, 100 + seed, rates)
    for number in range(WRONG):
        demos[number] = replace(demos[number], actions=change(demos[number].actions))

    result = check_dynamics(demos, target, DynamicsOptions())

    sure = [item for item in result.evidence if item.p_value < 0.001]
    found = {item.demo for item in sure}
    assert len(found & set(range(WRONG))) >= 0.8 * WRONG
    assert not found - set(range(WRONG))
    assert sum(item.kind == kind for item in sure) >= 0.9 * len(sure)
