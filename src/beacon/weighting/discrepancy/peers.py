"""Do demonstrations that see alike do alike? A check of labels by what other demonstrations do.

The action chunk of a window is predicted by the mean chunk of the windows that look most like it, of all
domains, its own demonstration left out. Demonstrations whose actions keep differing from those of their peers
have wrong actions, another goal, or images that do not show what the others' do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from beacon.weighting.checks import Ids, Vector
from beacon.weighting.discrepancy.base import Discrepancy, DiscrepancyInputs, Estimator, as_discrepancy
from beacon.weighting.discrepancy.neighbors import Neighbors, nearest

LARGEST = 5.0  # factor
PEERS = 10  # of a window
POOL = 8_000  # windows, drawn at random where there are more, among which peers are found
ROWS = 1024  # windows whose neighbours' chunks are in memory together


@dataclass
class PeerChecked:
    """An estimator whose discrepancies are multiplied by how much a demonstration disagrees with its peers.

    The factor is one for a source demonstration that disagrees as much as is usual: at most as far above the
    median as the tenth percentile is below it. So most of the source must be sound. It takes embeddings,
    action chunks and demonstration ids.
    """

    base: Estimator
    # (m,) factors that are known beforehand: what counts at first, and nothing at the last refresh
    beforehand: Vector | None = None
    k: int = PEERS
    pool: int = POOL
    _constant: Discrepancy | None = field(default=None, init=False)  # of a base that is asked only once

    def __call__(self, inputs: DiscrepancyInputs) -> Discrepancy:
        """The base's discrepancies, each times the factor of its demonstration."""
        found = self._constant or as_discrepancy(self.base(inputs))
        if getattr(self.base, "constant", False):
            self._constant = found
        factors = disagreement_factors(inputs, self.k, self.pool)
        if self.beforehand is not None:
            factors = (1.0 - inputs.progress) * self.beforehand + inputs.progress * factors
        checked = {"peer_disagreement": float(factors.mean())}
        return Discrepancy(found.values * factors, {**found.diagnostics, **checked})


def disagreement_factors(inputs: DiscrepancyInputs, k: int = PEERS, pool: int = POOL) -> Vector:
    """How much more than usual the demonstration of each source sample differs from its peers, (m,)."""
    source, target = inputs.embeddings()
    own, others = (chunks.flatten(1) for chunks in inputs.actions())
    episodes, target_episodes = inputs.episodes()
    points, answers = torch.cat([source, target]), torch.cat([own, others])
    # Source and target may have numbered their demonstrations alike.
    groups = np.concatenate([episodes, target_episodes + int(episodes.max()) + 1])
    if len(points) > pool:
        drawn = np.sort(np.random.default_rng(inputs.seed).permutation(len(points))[:pool])
        points, answers, groups = points[drawn], answers[drawn], groups[drawn]
    apart = _apart(nearest(source, points, k, episodes, groups), answers, own)
    return _relative_to_usual(apart, episodes)


def _apart(peers: Neighbors, answers: torch.Tensor, own: torch.Tensor) -> Vector:
    """Mean squared difference of each sample's chunk from its peers' mean, (m,); 0 for one without peers."""
    known = torch.isfinite(peers.distances)
    apart = torch.empty(len(own), dtype=torch.float64)
    for start in range(0, len(own), ROWS):
        part = slice(start, start + ROWS)
        votes = known[part].to(own.dtype).unsqueeze(-1)  # (rows, k, 1)
        mean = (answers[peers.indices[part]] * votes).sum(dim=1) / votes.sum(dim=1).clamp_min(1.0)
        apart[part] = (mean - own[part]).square().mean(dim=1) * known[part].any(dim=1)
    return np.asarray(apart.numpy())


def _relative_to_usual(apart: Vector, episodes: Ids) -> Vector:
    _, place = np.unique(episodes, return_inverse=True)
    of_demos = np.sqrt(np.bincount(place, weights=apart) / np.bincount(place))
    low, median = np.quantile(of_demos, (0.1, 0.5))
    usual = max(float(median + (median - low)), 1e-12)
    return np.asarray(np.clip(of_demos / usual, 1.0, LARGEST)[place])
