"""A robot that follows its actions slowly is judged with as many steps of motion as that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beacon.audit.dynamics import check_dynamics
from beacon.audit.dynamics_model import DynamicsOptions, follow_slowly
from beacon.audit.recordings import Recording

STEPS = 80


def recordings(count: int, seed: int, *, dead: int) -> list[Recording]:
    """Robots that begin to follow an action so many steps later."""
    rng = np.random.default_rng(seed)
    nothing = np.zeros((STEPS, 0), np.float32)
    demos = []
    for number in range(count):
        wanted = rng.normal(size=(STEPS + 2, 2))
        actions = (wanted[2:] + wanted[1:-1] + wanted[:-2]) / 2
        moved = np.concatenate([np.zeros((dead, 2)), actions[: STEPS - dead]])
        state = np.cumsum(moved, axis=0) + 0.02 * rng.normal(size=(STEPS, 2))
        arrays = (state.astype(np.float32), actions.astype(np.float32), nothing, nothing[0])
        demos.append(Recording(f"demo_{number}", *arrays, np.zeros(STEPS, np.float32), None))
    return demos


@pytest.mark.parametrize(("dead", "lags"), [(1, 4), (6, 8)])
def test_as_many_steps_as_the_target_needs(dead: int, lags: int) -> None:
    assert follow_slowly(recordings(10, seed=1, dead=dead), DynamicsOptions()).lags == lags


def test_short_demonstrations_keep_the_usual_number() -> None:
    short = [replace(r, state=r.state[:9], actions=r.actions[:9]) for r in recordings(4, seed=1, dead=1)]

    assert follow_slowly(short, DynamicsOptions()).lags == DynamicsOptions().lags


@pytest.mark.parametrize("late", [2, 4])
def test_late_actions_of_a_slow_robot_are_found_and_counted(late: int) -> None:
    demos, target = recordings(40, seed=2, dead=6), recordings(10, seed=3, dead=6)
    for number in range(12):
        actions = demos[number].actions
        actions = np.concatenate([np.repeat(actions[:1], late, axis=0), actions[:-late]])
        demos[number] = replace(demos[number], actions=actions)

    found = {item.demo: item for item in check_dynamics(demos, target, DynamicsOptions()).evidence}

    assert set(found) == set(range(12))
    assert {item.repair.lag for item in found.values() if item.repair is not None} == {late}
