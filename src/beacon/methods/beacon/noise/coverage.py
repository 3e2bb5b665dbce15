"""How much of the target is near a source window: where there is nothing, the source has to teach everything.

The windows nearest to a source window are looked for among those of the target and of as many random source
demonstrations of its domain, its own left out. Where the target is as dense as the source, half of them are
the target's:

    κ_i = min(1, 2 · share of the target's among the k nearest),   mean over several draws

Source and target may look different everywhere. So the target's embeddings are first moved by the mean of
what they are off from their nearest source windows, a few times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from beacon.methods.base import Indices
from beacon.methods.beacon.noise.base import Vector

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data.context import DataContext

MOVES = 5  # until the target's embeddings are among the source's
NEAREST = 5  # source windows that a target window is compared with
STREAM = 26  # of randomness
NOBODY = -1  # no demonstration has this number


def move_to_source(source: Tensor, target: Tensor) -> Tensor:
    """Target embeddings (n, D) without what all of them are off from their nearest source windows (m, D).

    A change of look moves all embeddings alike; a part of the table that the target does not have moves none.
    """
    from beacon.weighting.discrepancy.neighbors import nearest

    moved = target
    for _ in range(MOVES):
        near = nearest(moved, source, NEAREST).indices  # (n, k)
        moved = moved - (moved - source[near].mean(dim=1)).mean(dim=0)
    return moved


def coverage_of(context: DataContext, embeddings: Tensor, k: int, draws: int, epoch: int) -> Vector:
    """κ of every window of a run, (N,); zero on the target.

    Args:
        context: of the run.
        embeddings: of all windows, (N, F).
        k: windows that are looked for.
        draws: of source demonstrations.
        epoch: decides, with the run's seed, what is drawn.
    """
    windows = context.windows
    rng = np.random.default_rng([context.seed, epoch, STREAM])
    target = embeddings[context.target_windows]
    demos = len(np.unique(windows.episode[context.target_windows]))
    covered = np.zeros(len(windows))
    for domain in range(len(context.domains.sources)):
        members = np.flatnonzero(windows.domain == domain)
        episodes = windows.episode[members].astype(np.int64)
        covered[members] = target_coverage(embeddings[members], episodes, target, demos, k, draws, rng)
    return covered


def target_coverage(
    source: Tensor,
    episodes: Indices,
    target: Tensor,
    demos: int,
    k: int,
    draws: int,
    rng: np.random.Generator,
) -> Vector:
    """κ of the windows of one source, (m,).

    Args:
        source: their embeddings, (m, F).
        episodes: their demonstrations, (m,).
        target: embeddings of the target's windows, (n, F).
        demos: how many demonstrations the target has.
        k: windows that are looked for.
        draws: of source demonstrations.
        rng: what they are drawn with.
    """
    moved = move_to_source(source, target)
    shares = [_target_shares(source, episodes, moved, demos, k, rng) for _ in range(draws)]
    return np.asarray(np.mean(np.minimum(1.0, 2 * np.array(shares)), axis=0))


def _target_shares(
    source: Tensor, episodes: Indices, target: Tensor, demos: int, k: int, rng: np.random.Generator
) -> Vector:
    """Share of the target's among the k nearest windows of the target and as many source demonstrations."""
    import torch

    from beacon.weighting.discrepancy.neighbors import nearest

    # One more is drawn: windows of a drawn one see all the others, the rest all but the last.
    drawn = rng.permutation(np.unique(episodes))[: demos + 1]
    inside = np.isin(episodes, drawn)
    left_out = np.where(inside, episodes, drawn[-1])
    chosen = np.flatnonzero(inside)
    points = torch.cat([target, source[chosen]])
    groups = np.concatenate([np.full(len(target), NOBODY), episodes[chosen]])
    neighbors = nearest(source, points, k, left_out, groups)
    exists = torch.isfinite(neighbors.distances)
    of_target = exists & (neighbors.indices < len(target))
    share = of_target.sum(dim=1) / exists.sum(dim=1).clamp_min(1)
    return np.asarray(share.double().cpu().numpy())
