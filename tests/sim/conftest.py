"""Worlds are expensive to build, so tests share them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from beacon.sim.experts import make_expert
from beacon.sim.rollout import Recording, record
from beacon.sim.world import Episode, World

MakeWorld = Callable[..., World]


@lru_cache(maxsize=12)
def _world(task: str, size: str, domain: str) -> World:
    return World(task, domain, size)


@pytest.fixture
def make_world() -> MakeWorld:
    def make(task: str, size: str = "small", domain: str = "source") -> World:
        return _world(task, size, domain)

    return make


@lru_cache(maxsize=32)
def expert_recording(task: str, size: str, seed: int, domain: str = "source") -> Recording:
    """A demonstration by the scripted expert."""
    world = _world(task, size, domain)
    episode = Episode(world)
    rng = np.random.default_rng([seed, 7])
    return record(episode, world.initial_state("train", seed), lambda: make_expert(episode, rng).act)
