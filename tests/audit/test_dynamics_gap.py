"""Whether the same actions move source and target alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from beacon.audit.dynamics_gap import dynamics_gap
from beacon.data.episodes import EpisodeSet

STEPS = 60


def robot(
    demos: int, seed: int, *, gain: float = 1.0, delay: int = 0, mirrored: float = 0.0, noise: float = 0.001
) -> EpisodeSet:
    """A robot whose velocity follows its actions by a gain, after a delay; a share has mirrored actions."""
    rng = np.random.default_rng(seed)
    states, actions = [], []
    for number in range(demos):
        action = np.cumsum(rng.normal(size=(STEPS, 3)), axis=0) / 5
        applied = np.concatenate([np.zeros((delay, 3)), action])[:STEPS]
        state = np.cumsum(np.concatenate([np.zeros((1, 3)), 0.1 * gain * applied[:-1]]), axis=0)
        states.append(state + noise * rng.normal(size=state.shape))
        actions.append(-action if number < mirrored * demos else action)
    lengths = np.full(demos, STEPS)
    return EpisodeSet(
        name="robot",
        path=Path("robot-in-memory.hdf5"),
        episode_names=[f"demo_{number}" for number in range(demos)],
        lengths=lengths,
        actions=np.concatenate(actions).astype(np.float32),
        proprio={"position": np.concatenate(states).astype(np.float32)},
        images={},
        env_args={},
        episode_attributes=[{} for _ in range(demos)],
        image_starts=np.cumsum(lengths) - lengths,
    )


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
