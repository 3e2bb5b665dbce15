"""Where a demonstration goes is judged, not when; and less where pictures can tell less."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from beacon.audit.goals import GoalOptions, _beside_their_units, _States, check_goals
from beacon.audit.recordings import Recording


def recording(state: NDArray[np.float64]) -> Recording:
    nothing = np.zeros((len(state), 0), np.float32)
    still = np.zeros(len(state), np.float32)
    return Recording("demo", state.astype(np.float32), nothing, nothing, nothing[0], still, None)


def line(*places: float) -> NDArray[np.float64]:
    """From place to place in steps of a tenth, (T, 1)."""
    parts = [np.linspace(a, b, 11) for a, b in pairwise(places)]
    return np.concatenate(parts)[:, None]


def reaching(rng: np.random.Generator, *, lingers: bool) -> Recording:
    """From the middle to a goal that the first picture shows; who lingers feels about half of the way."""
    goal = rng.uniform(-1, 1, 2)
    way = np.linspace(0, 1, 41)[:, None] * goal + 0.01 * rng.normal(size=(41, 2))
    if lingers:
        way = np.concatenate([way[:20], way[20] + 0.1 * rng.normal(size=(40, 2)), way[20:]])
    return replace(recording(way), first_picture=goal.astype(np.float32))


def test_those_who_linger_go_where_the_others_go() -> None:
    rng = np.random.default_rng(3)
    demos = [reaching(rng, lingers=number % 20 == 0) for number in range(100)]

    result = check_goals(demos, GoalOptions())

    assert result.remark is None
    assert result.p_values.min() > 1e-3


def test_places_are_passed_in_order_at_any_pace() -> None:
    ways = (line(0, 1, 0), np.repeat(line(0, 1, 0), 3, axis=0), line(1, 0), line(0, 1))
    places, weights = np.tile([0.5, 1.0, 0.0], (len(ways), 1)), np.ones((len(ways), 3))

    straight, slow, never, elsewhere = _States([recording(way) for way in ways]).passes(places, weights)

    assert straight == pytest.approx(0, abs=1e-6)
    assert slow == pytest.approx(0, abs=1e-6)
    assert never > 0.3  # at 1 after 0.5
    assert elsewhere == pytest.approx(1.0)  # where it ends


def test_what_errs_more_where_it_can_tell_less_is_measured_beside_that() -> None:
    rng = np.random.default_rng(4)
    units = rng.normal(size=200)
    misfits = 0.7 * units + 0.1 * rng.normal(size=200)
    members = np.arange(200) > 4

    beside = _beside_their_units(misfits, units, members)
    alone = _beside_their_units(-misfits, units, members)

    assert beside.std() == pytest.approx(0.1, rel=0.2)
    assert np.array_equal(alone, -misfits)  # a regression is never trusted more where it can tell less
