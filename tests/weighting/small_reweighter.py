"""A Reweighter of 40 source and 8 target samples, four to a demonstration, and data for its refreshes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon import Reweighter

M, N = 40, 8
DOMAINS = np.r_[np.zeros(M, int), np.ones(N, int)]
EPISODES = np.arange(M + N) // 4
THREE = np.r_[np.repeat(["a", "b"], M // 2), ["real"] * N]  # the same samples in two source domains


def data(seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Losses (N,) and embeddings (N, 6); source samples are the farther away the more they were moved."""
    rng = np.random.default_rng(seed)
    losses = rng.random(M + N)
    embeddings = rng.normal(size=(M + N, 6)) + 2.0 * (DOMAINS == 0)[:, None] * rng.random((M + N, 1))
    return losses, embeddings.astype(np.float32)


def make(**options: Any) -> Reweighter:
    """A Reweighter of these samples, for 20 refreshes unless the options say otherwise."""
    known = {"domains": DOMAINS, "target": 1, "episodes": EPISODES}
    if "refreshes" not in options:
        known["planned_refreshes"] = 20
    return Reweighter(**(known | options))


def run(rw: Reweighter, refreshes: int, first: int = 0, **more: Any) -> Reweighter:
    """Refresh it with the data of consecutive seeds."""
    for seed in range(first, first + refreshes):
        losses, embeddings = data(seed)
        rw.refresh(losses, embeddings, **more)
    return rw


def state_bytes(rw: Reweighter) -> dict[str, bytes]:
    """Its whole state, to the bit."""
    return {name: tensor.numpy().tobytes() for name, tensor in rw.state_dict().items()}
