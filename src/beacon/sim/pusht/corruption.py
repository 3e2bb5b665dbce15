"""Corrupted PushT demonstrations: as `beacon.data.corruption`, for actions that are positions."""

from __future__ import annotations

from collections.abc import Callable

import h5py
import numpy as np

from beacon.data.corruption import DELAY, DELAYED, LATERAL, MIRRORED, NOISE, NOISY, Actions, Replace
from beacon.sim.pusht.task import SIDE


def delayed(actions: Actions, rng: np.random.Generator) -> Actions:
    """Every position comes late; until then the first one holds."""
    return np.asarray(actions[np.maximum(np.arange(len(actions)) - DELAY, 0)])


def mirrored(actions: Actions, rng: np.random.Generator) -> Actions:
    """One axis is turned around, about the middle of the board."""
    result = actions.copy()
    result[:, LATERAL] = SIDE - result[:, LATERAL]
    return result


def noisy(actions: Actions, rng: np.random.Generator) -> Actions:
    """Noise of the same share of the range as in other tasks."""
    noise = NOISE * SIDE / 2 * rng.standard_normal(actions.shape)
    return np.clip(actions + noise, 0.0, SIDE).astype(actions.dtype)


def replacements(seed: int) -> dict[str, Replace]:
    """Functions that corrupt one demonstration of an open file, by the corruption's name.

    Args:
        seed: of the noise.
    """

    def replace(change: Callable[[Actions, np.random.Generator], Actions]) -> Replace:
        def apply(data: h5py.Group, name: str) -> None:
            rng = np.random.default_rng([seed, 41, int(name.rpartition("_")[2])])
            data[name]["actions"][...] = change(data[name]["actions"][()], rng)

        return apply

    return {DELAYED: replace(delayed), MIRRORED: replace(mirrored), NOISY: replace(noisy)}
