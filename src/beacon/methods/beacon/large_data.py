"""Refreshes of so many windows that gradient steps do not visit them all before measurements are old.

Computing all old ones anew would cost more than the training. Instead a share of them is computed, and a
window that was never measured takes the measurement of the window of its demonstration that is nearest in
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.methods.base import Indices

Ages = NDArray[np.int64]  # the epoch in which each window was measured last, −1: never


def choose_old(old: Indices, epochs: Ages, episodes: NDArray[np.integer[Any]], most: int) -> Indices:
    """At most ``most`` of the old windows, and one of every demonstration that has no measurement at all.

    Args:
        old: windows whose measurements are too old, ascending.
        epochs: of all windows.
        episodes: demonstration of every window.
        most: how many may be computed.

    Never measured ones come first, evenly spaced; then the oldest.

    >>> epochs, episodes = np.array([-1, -1, -1, -1, 2, -1, 0, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> choose_old(np.array([0, 1, 2, 3, 5, 6, 7]), epochs, episodes, 3).tolist()
    [0, 1, 3]
    """
    known = np.zeros(int(episodes.max()) + 1, bool)
    known[episodes[epochs >= 0]] = True
    unknown, first = np.unique(episodes[old], return_index=True)
    needed = old[first[~known[unknown]]]
    rest = np.setdiff1d(old, needed, assume_unique=True)
    room = max(0, most - len(needed))
    never = rest[epochs[rest] < 0]
    if len(never) > room:
        chosen = never[np.arange(room) * len(never) // max(room, 1)]
    else:
        seen = rest[epochs[rest] >= 0]
        chosen = np.concatenate([never, seen[np.argsort(epochs[seen], kind="stable")[: room - len(never)]]])
    return np.sort(np.concatenate([needed, chosen]))


def nearest_measured(epochs: Ages, episodes: NDArray[np.integer[Any]]) -> tuple[Indices, Indices]:
    """The windows without a measurement, and for each the nearest one that has one.

    Args:
        epochs: of windows that follow each other in time, demonstration by demonstration.
        episodes: demonstration of each.

    The nearest is of the same demonstration where that has any.

    >>> nearest_measured(np.array([-1, 3, -1, -1, 3, -1, 1]), np.array([0, 0, 0, 0, 0, 1, 1]))
    (array([0, 2, 3, 5]), array([1, 1, 4, 6]))
    """
    measured, missing = np.flatnonzero(epochs >= 0), np.flatnonzero(epochs < 0)
    if not len(measured) or not len(missing):
        return missing[:0], missing[:0]
    place = np.searchsorted(measured, missing)
    before, after = measured[np.maximum(place - 1, 0)], measured[np.minimum(place, len(measured) - 1)]
    apart = np.abs(np.stack([missing - before, after - missing]))
    is_foreign = np.stack([episodes[before], episodes[after]]) != episodes[missing]
    apart = apart + len(epochs) * is_foreign  # any of the same demonstration is nearer
    return missing, np.where(apart[0] <= apart[1], before, after)
