"""An observation to try a policy with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.policy.trained import TrainedPolicy


def example_observation(policy: TrainedPolicy, seed: int = 0) -> dict[str, NDArray[Any]]:
    """A random observation of one step, within what was seen in training.

    Args:
        policy: whose observation it is.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    observation: dict[str, NDArray[Any]] = {
        name: rng.integers(0, 256, shape, dtype=np.uint8) for name, shape in policy.spec.cameras.items()
    }
    for name, size in policy.spec.proprio.items():
        affine = policy.normalization.proprio[name]
        observation[name] = affine.offset.numpy() + affine.scale.numpy() * rng.uniform(-1, 1, size)
    return observation
