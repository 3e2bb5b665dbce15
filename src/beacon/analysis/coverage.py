"""Where demonstrations start, and how near the target's demonstrations come to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distance_to_nearest(starts: NDArray[np.float64], on_target: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Euclidean distance of every start to the nearest target's, (E,); a target is compared with the others.

    Args:
        starts: a point for every demonstration, (E, D).
        on_target: which demonstrations are the target's, (E,).
    """
    members = np.flatnonzero(on_target)
    table = np.linalg.norm(starts[:, None] - starts[None, members], axis=2)  # (E, targets)
    table[members, np.arange(len(members))] = np.inf
    return np.asarray(table.min(axis=1, initial=np.inf))


def in_units_of_spread(values: NDArray[np.float64], smallest: float = 1e-6) -> NDArray[np.float64] | None:
    """Columns divided by their standard deviation, without those that do not vary; None if none does.

    Args:
        values: (E, D).
        smallest: a column that varies less is a constant.
    """
    spread = values.std(axis=0)
    moving = spread > smallest
    return np.asarray(values[:, moving] / spread[moving]) if moving.any() else None
