"""`Domains`: which demonstrations are sources and which are the target's, said once for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Domains:
    """The domains of a run. Windows and episode sets number them sources first, the target last.

    Args:
        sources: names of the source domains, in the order in which they were given; may be empty.
        target: name of the target domain, None where there is none.
    """

    sources: tuple[str, ...]
    target: str | None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"names of domains must be unique, got {', '.join(self.names)}")
        if not self.names:
            raise ValueError("there is no domain")

    @property
    def names(self) -> tuple[str, ...]:
        """All of them by number: sources first, then the target."""
        return self.sources if self.target is None else (*self.sources, self.target)

    @property
    def target_index(self) -> int | None:
        """The target's number; None where there is no target."""
        return None if self.target is None else len(self.sources)

    def __len__(self) -> int:
        return len(self.names)

    def is_target(self, number: NDArray[Any]) -> NDArray[np.bool_]:
        """Which entries of an array of domain numbers are the target's."""
        if self.target_index is None:
            return np.zeros(np.shape(number), np.bool_)
        return np.asarray(number == self.target_index)
