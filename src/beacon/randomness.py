"""Randomness as a pure function of what it is for: nothing to save, nothing to lose on resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

# Streams of the seeds of single episodes; different purposes never share a stream.
PURPOSES = {"generate": 0, "evaluate": 1, "environment": 2, "expert": 3, "mimic": 4, "policy": 5}


@dataclass(frozen=True)
class Share:
    """The rows of a mini-batch that one of several processes computes.

    Random numbers are drawn for the whole mini-batch, so that a run has the same ones with any number of
    processes.
    """

    start: int
    count: int
    size: int  # of the whole mini-batch

    @property
    def rows(self) -> slice:
        """Of the whole mini-batch."""
        return slice(self.start, self.start + self.count)

    def of(self, drawn: torch.Tensor, dim: int = 0) -> torch.Tensor:
        """The own part of what was drawn for all."""
        return drawn.narrow(dim, self.start, self.count)


def drawn_rows(share: Share | None, rows: int) -> int:
    """For how many rows to draw where a process has ``rows``."""
    return rows if share is None else share.size


def generator(*keys: int) -> torch.Generator:
    """A generator on the CPU whose state depends on ``keys`` alone, the same on every device."""
    import torch

    seed = np.random.SeedSequence(keys).generate_state(1, np.uint64)[0]
    # torch takes a signed number.
    return torch.Generator().manual_seed(int(seed >> np.uint64(1)))


def episode_seed(seed: int, purpose: str, index: int) -> int:
    """The seed of one episode, 63 well-mixed bits.

    Args:
        seed: of the whole command.
        purpose: what it is for, one of `PURPOSES`.
        index: number of the episode.
    """
    low, high = np.random.SeedSequence([seed, PURPOSES[purpose], index]).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) & (2**63 - 1)
