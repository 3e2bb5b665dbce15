"""Randomness as a pure function of what it is for: nothing to save, nothing to lose on resume."""

from __future__ import annotations

import numpy as np
import torch


def generator(*keys: int) -> torch.Generator:
    """A generator on the CPU whose state depends on ``keys`` alone, the same on every device."""
    seed = np.random.SeedSequence(keys).generate_state(1, np.uint64)[0]
    # torch takes a signed number.
    return torch.Generator().manual_seed(int(seed >> np.uint64(1)))
