"""How far demonstrations start from the nearest target demonstration, by what their datasets recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.analysis.coverage import distance_to_nearest, in_units_of_spread
from beacon.data import open_dataset
from beacon.errors import UserError
from beacon.runs.demonstrations import Demonstrations

PLACEMENTS = "placements"  # attribute of `beacon generate`: {object: [x, y, yaw]}, metres and radians

Starts = NDArray[np.float64]  # a point for every demonstration, (E, D)


@dataclass(frozen=True, eq=False)
class InitialDistance:
    """Distance of every demonstration to the nearest target demonstration at the start."""

    values: NDArray[np.float64]  # (E,)
    unit: str
    what: str  # was compared


def initial_distance(domains: Sequence[Demonstrations], target: int | None) -> InitialDistance | str:
    """From recorded placements, else from recorded simulator states; a sentence where there is neither.

    Args:
        domains: the demonstrations by domain.
        target: which domain is the target.
    """
    if target is None:
        return "There is no target demonstration to measure the distance to."
    on_target = np.repeat(np.arange(len(domains)), [len(domain.names) for domain in domains]) == target
    readers: tuple[tuple[Callable[[Sequence[Demonstrations]], Starts | None], str, str], ...] = (
        (_placements, "m", "object placement"),
        (_states, "standard deviations", "recorded simulator state"),
    )
    for read, unit, what in readers:
        starts = read(domains)
        if starts is not None:
            return InitialDistance(distance_to_nearest(starts, on_target), unit, what)
    return "The datasets record neither object placements nor simulator states."


def _placements(domains: Sequence[Demonstrations]) -> Starts | None:
    """Position of all objects on the table, (E, 2 · objects)."""
    rows = []
    keys: list[str] | None = None
    for domain in domains:
        for attributes in domain.attributes:
            try:
                placed: dict[str, Any] = json.loads(attributes[PLACEMENTS])
                keys = sorted(placed) if keys is None else keys
                rows.append([float(value) for key in keys for value in placed[key][:2]])
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
                return None
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        return None
    starts = np.array(rows)
    return starts if np.isfinite(starts).all() else None


def _states(domains: Sequence[Demonstrations]) -> Starts | None:
    """The first recorded state of every demonstration in units of its spread, (E, S)."""
    rows = []
    for domain in domains:
        try:
            with open_dataset(domain.path) as reader:
                for name in domain.names:
                    rows.append(np.asarray(reader.read(name, "states")[0], dtype=np.float64).reshape(-1))
        except (UserError, OSError, IndexError, ValueError):
            return None
    if len({len(row) for row in rows}) != 1:
        return None
    starts = np.array(rows)
    # Constants, and the clock, say nothing.
    return in_units_of_spread(starts) if np.isfinite(starts).all() else None
