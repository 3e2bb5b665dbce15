"""Whether the same actions move source and target alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from moving_robot import STEPS, robot

from beacon.audit.dynamics_gap import dynamics_gap
from beacon.data.episodes import EpisodeSet


@pytest.mark.parametrize("demos", [3, 10])
def test_the_same_robot_has_no_gap(demos: int) -> None:
    gap = dynamics_gap([robot(50, 0)], robot(demos, 1))
    assert gap is not None and 0.7 < gap < 1.5


@pytest.mark.parametrize("target", [robot(6, 1, gain=0.6), robot(6, 1, delay=2)], ids=["gain", "delay"])
def test_another_robot_has_one(target: EpisodeSet) -> None:
    gap = dynamics_gap([robot(50, 0)], target)
    assert gap is not None and gap > 3


def test_corrupted_demonstrations_of_the_source_change_nothing() -> None:
    gap = dynamics_gap([robot(50, 0, mirrored=0.4)], robot(6, 1))
    assert gap is not None and gap < 1.5


def test_of_several_sources_the_worst_counts() -> None:
    alone, other = (
        dynamics_gap([robot(50, 0)], robot(6, 1)),
        dynamics_gap([robot(50, 2, delay=2)], robot(6, 1)),
    )
    assert alone is not None and other is not None and other > 3 * alone
    assert dynamics_gap([robot(50, 0), robot(50, 2, delay=2)], robot(6, 1)) == other


def test_what_the_data_cannot_tell_is_none() -> None:
    assert (
        dynamics_gap([robot(50, 0)], robot(1, 1)) is None
    )  # one demonstration says nothing of what is usual
    unmoved = replace(robot(6, 1), proprio={})
    assert dynamics_gap([robot(50, 0)], unmoved) is None
    other_sensors = replace(robot(50, 0), proprio={"joints": np.zeros((50 * STEPS, 7), np.float32)})
    assert dynamics_gap([other_sensors], robot(6, 1)) is None
    assert dynamics_gap([], robot(6, 1)) is None
