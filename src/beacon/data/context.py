"""`DataContext`: the training samples of a run and who they are, before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from beacon.data.domains import Domains

if TYPE_CHECKING:
    from beacon.data.windows import Windows

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DataContext:
    """What a check, and everything else that needs no policy, may look at.

    Args:
        windows: all training samples, sources first, the target's last.
        domains: which of them are sources and which the target's.
        seed: decides everything that is drawn at random.
        device: where the run computes, ``cpu`` or ``cuda``.
    """

    windows: Windows
    domains: Domains
    seed: int
    device: str = field(default="cpu", kw_only=True)

    @property
    def target(self) -> int:
        """The target's domain number; one that no window has where there is no target."""
        return len(self.domains.sources)

    @property
    def target_windows(self) -> Indices:
        """Indices of all target windows."""
        return np.flatnonzero(self.windows.domain == self.target)

    @property
    def source_windows(self) -> Indices:
        """Indices of all source windows."""
        return np.flatnonzero(self.windows.domain != self.target)
