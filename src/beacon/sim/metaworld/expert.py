"""Meta-World's own scripted policies, with noise on their actions."""

from __future__ import annotations

import warnings

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.experts.base import Demonstrator
from beacon.sim.metaworld.package import expert_class
from beacon.sim.metaworld.world import MetaWorldEpisode
from beacon.sim.simulation import SimulatedEpisode

TAIL = 3  # steps after the first success, so that the end state is in the demonstration


class MetaWorldExpert(Demonstrator):
    """Asks the package's policy until a few steps after the first success."""

    def __init__(self, episode: SimulatedEpisode, rng: np.random.Generator, noise: float = 0.05) -> None:
        assert isinstance(episode, MetaWorldEpisode)
        self._episode, self._rng, self._noise = episode, rng, noise
        self._policy = expert_class(episode.world.task.environment)()
        self._left = TAIL

    def act(self) -> Array | None:
        """The next action, float32 as it will be stored; None after the end."""
        if self._episode.criteria()["success"] or self._left < TAIL:
            if self._left == 0:
                return None
            self._left -= 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "constants may be too high": actions are clipped here
            # A copy: some of the package's policies write into what they are given.
            action = self._policy.get_action(self._episode.full_observation.copy())
        action = np.asarray(action, dtype=np.float64)
        action = np.clip(action, -1.0, 1.0)
        action[:3] += self._noise * self._rng.standard_normal(3)
        return np.clip(action, -1.0, 1.0).astype(np.float32)
