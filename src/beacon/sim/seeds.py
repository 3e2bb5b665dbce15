"""Seeds of single episodes: a pure function of (seed, purpose, index), whoever computes them."""

from __future__ import annotations

import numpy as np

PURPOSES = {"generate": 0, "evaluate": 1, "environment": 2, "expert": 3, "mimic": 4, "policy": 5}


def episode_seed(seed: int, purpose: str, index: int) -> int:
    """63 well-mixed bits; different purposes never share a stream."""
    low, high = np.random.SeedSequence([seed, PURPOSES[purpose], index]).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) & (2**63 - 1)
