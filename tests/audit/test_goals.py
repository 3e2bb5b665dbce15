"""Where a demonstration goes is judged, not when; and less where pictures can tell less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import point_robot as robot
import pytest
from numpy.typing import NDArray

from beacon.audit.goals import GoalOptions, _beside_their_units, _passes, check_goals
from beacon.audit.recordings import Recording, read_recordings


def recording(state: NDArray[np.float64]) -> Recording:
    nothing = np.zeros((len(state), 0), np.float32)
    return Recording("demo", state.astype(np.float32), nothing, nothing, nothing[0], nothing[:, 0], None)


def line(*places: float) -> NDArray[np.float64]:
    """From place to place in steps of a tenth, (T, 1)."""
    parts = [np.linspace(a, b, 11) for a, b in zip(places, places[1:], strict=False)]
    return np.concatenate(parts)[:, None]


def lingering(demo: Recording, step: int, steps: int, rng: np.random.Generator) -> Recording:
    """The same way with so many steps about one place in the midst of it."""
    around = demo.state[step] + 0.02 * rng.normal(size=(steps, demo.state.shape[1])).astype(np.float32)
    around[:, -1] = demo.state[step, -1]  # not the gripper
    return replace(demo, state=np.concatenate([demo.state[:step], around, demo.state[step:]]))


def test_those_who_linger_go_where_the_others_go() -> None:
    rng = np.random.default_rng(3)
    demos = read_recordings(robot.as_set(robot.demonstrations(80, seed=21)))
    lingerers = list(range(0, 80, 16))
    for number in lingerers:
        demos[number] = lingering(demos[number], 12, 60, rng)

    result = check_goals(demos, GoalOptions())

    assert result.remark is None
    assert result.p_values.min() > 1e-3
    assert np.median(result.p_values[lingerers]) > 0.05


def test_places_are_passed_in_order_at_any_pace() -> None:
    places, weights = np.array([0.5, 1.0, 0.0]), np.ones(3)
    straight, slow = recording(line(0, 1, 0)), recording(np.repeat(line(0, 1, 0), 3, axis=0))

    assert _passes(straight, places, weights) == pytest.approx(0, abs=1e-6)
    assert _passes(slow, places, weights) == pytest.approx(0, abs=1e-6)
    assert _passes(recording(line(1, 0)), places, weights) == pytest.approx(0.5)  # never at 1 after 0.5
    assert _passes(recording(line(0, 1)), places, weights) == pytest.approx(1.0)  # ends elsewhere


def test_what_errs_more_where_it_can_tell_less_is_measured_beside_that() -> None:
    rng = np.random.default_rng(4)
    units = rng.normal(size=200)
    misfits = 0.7 * units + 0.1 * rng.normal(size=200)
    members = np.arange(200) > 4

    beside = _beside_their_units(misfits, units, members)
    alone = _beside_their_units(-misfits, units, members)

    assert beside.std() == pytest.approx(0.1, rel=0.2)
    assert np.array_equal(alone, -misfits)  # a regression is never trusted more where it can tell less
