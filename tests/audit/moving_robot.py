"""Demonstrations, in memory, of a robot whose velocity follows its actions; without pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
