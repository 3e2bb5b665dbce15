"""How far a source demonstration starts from the nearest target demonstration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data import open_dataset
from beacon.errors import UserError
from beacon.report.library import Library

PLACEMENTS = "placements"  # attribute of `beacon generate`: {object: [x, y, yaw]}, metres and radians


@dataclass(frozen=True, eq=False)
class InitialDistance:
    """Distance of every demonstration to the nearest target demonstration at the start."""

    values: NDArray[np.float64]  # (demonstrations,)
    unit: str
    what: str


def initial_distance(library: Library) -> InitialDistance | str:
    """From recorded placements, else from recorded simulator states; a sentence where there is neither."""
    if library.target is None:
        return "There is no target demonstration to measure the distance to."
    for read, unit, what in (
        (_placements, "m", "object placement"),
        (_states, "standard deviations", "recorded simulator state"),
    ):
        starts = read(library)
        if starts is not None:
            return InitialDistance(_to_nearest(starts, library), unit, what)
    return "The datasets record neither object placements nor simulator states."


def _to_nearest(starts: NDArray[np.float64], library: Library) -> NDArray[np.float64]:
    """Euclidean, (E,); a target demonstration is compared with the other ones."""
    on_target = np.flatnonzero(library.domain == library.target)
    table = np.linalg.norm(starts[:, None] - starts[None, on_target], axis=2)  # (E, n)
    table[on_target, np.arange(len(on_target))] = np.inf
    return np.asarray(table.min(axis=1))


def _placements(library: Library) -> NDArray[np.float64] | None:
    """Position of all objects on the table, (E, 2 · objects)."""
    rows = []
    keys: list[str] | None = None
    for episodes in library.sets:
        for attributes in episodes.episode_attributes:
            try:
                placed: dict[str, Any] = json.loads(attributes[PLACEMENTS])
                keys = sorted(placed) if keys is None else keys
                rows.append([float(v) for key in keys for v in placed[key][:2]])
            except (KeyError, TypeError, ValueError, AttributeError):
                return None
    return np.array(rows) if rows and rows[0] else None


def _states(library: Library) -> NDArray[np.float64] | None:
    """The first recorded state of every demonstration in units of its spread, (E, S)."""
    rows = []
    for episodes in library.sets:
        try:
            with open_dataset(episodes.path) as reader:
                for name in episodes.episode_names:
                    rows.append(np.asarray(reader.read(name, "states")[0], dtype=np.float64).reshape(-1))
        except (UserError, OSError, IndexError):
            return None
    if len({len(row) for row in rows}) != 1:
        return None
    table = np.array(rows)
    spread = table.std(axis=0)
    moving = spread > 1e-6  # constants, and the clock, say nothing
    return np.asarray(table[:, moving] / spread[moving]) if moving.any() else None
