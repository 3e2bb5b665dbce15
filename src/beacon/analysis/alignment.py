"""How well two domains mix in a feature space, by the neighbours of their windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def balanced_pool(on_target: NDArray[np.bool_], seed: int = 0) -> NDArray[np.int64]:
    """Indices of as many windows of either side, target first: neither is near only because it is large.

    Args:
        on_target: which windows are the target's, (N,).
        seed: of the choice.
    """
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(on_target), np.flatnonzero(~on_target)]
    size = min(map(len, sides))
    return np.concatenate([np.sort(rng.permutation(side)[:size]) for side in sides])


def cross_domain_neighbours(
    neighbours: NDArray[np.int64],
    near: NDArray[np.bool_],
    on_target: NDArray[np.bool_],
    demos: NDArray[np.int64],
) -> tuple[float | None, float | None]:
    """Mean share of a window's neighbours that are of the other side, and what it would be by chance.

    Args:
        neighbours: indices of the k nearest windows of other demonstrations, (P, k).
        near: which of them there are, (P, k); a small pool may have fewer than k.
        on_target: which windows are the target's, (P,), as many as are not (`balanced_pool`).
        demos: the demonstration of every window, (P,).
    """
    other = on_target[neighbours] != on_target[:, None]
    counted = near.sum(axis=1)
    usable = counted > 0
    if not usable.any():
        return None, None
    share = (other & near).sum(axis=1)[usable] / counted[usable]
    own = np.array([(demos == demo).sum() for demo in demos])
    return float(share.mean()), float((len(demos) // 2 / (len(demos) - own)).mean())
