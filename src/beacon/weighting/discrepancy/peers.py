"""Do demonstrations that see alike do alike? A check of labels by what other demonstrations do.

The action chunk of a window is predicted by the mean chunk of the windows that look most like it, of all
domains, its own demonstration left out. Demonstrations whose actions keep differing from those of their
peers, more than is common at that part of an episode, have wrong actions, another goal, or images that do not
show what the others' do.
"""

from __future__ import annotations

from collections.abc import Iterator
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
PHASES = 10  # parts of an episode, each with differences of its own that are common there
LITTLE = 0.1  # of what is common in the whole episode: the least to compare with, and the least that counts
SPREADS = 2.5  # from the tenth percentile to the median: so far above it a demonstration is usual still


@dataclass
class PeerChecked:
    """An estimator whose discrepancies are multiplied by how much a demonstration disagrees with its peers.

    The factor is one for a source demonstration that disagrees as much as is usual: above the median by at
    most `SPREADS` times what the tenth percentile is below it. So most of the source must be sound. It takes
    embeddings, action chunks and demonstration ids, and the samples of a demonstration in the order of time.
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
    peers = nearest(source, points, k, episodes, groups)
    phase = _phases(episodes).to(own.device)
    common = _common(peers, answers, own, phase)
    unusual = torch.empty(len(own), dtype=torch.float64)
    for rows, squares in _squares(peers, answers, own):
        unusual[rows] = (squares / common[phase[rows]]).mean(dim=1).double()
    return _relative_to_usual(unusual.numpy(), episodes)


def _squares(
    peers: Neighbors, answers: torch.Tensor, own: torch.Tensor
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Squared differences of chunks from their peers' mean, (rows, A) at a time; 0 for one without peers."""
    known = torch.isfinite(peers.distances)
    for start in range(0, len(own), ROWS):
        part = slice(start, start + ROWS)
        votes = known[part].to(own.dtype).unsqueeze(-1)  # (rows, k, 1)
        mean = (answers[peers.indices[part]] * votes).sum(dim=1) / votes.sum(dim=1).clamp_min(1.0)
        yield part, (mean - own[part]).square() * known[part].any(dim=1, keepdim=True)


def _common(peers: Neighbors, answers: torch.Tensor, own: torch.Tensor, phase: torch.Tensor) -> torch.Tensor:
    """Squared differences that are common at every phase, (PHASES, A)."""
    totals = own.new_zeros(PHASES, own.shape[1])
    for rows, squares in _squares(peers, answers, own):
        totals.index_add_(0, phase[rows], squares)
    counts = torch.bincount(phase, minlength=PHASES).clamp_min(1).unsqueeze(1)
    return totals / counts + LITTLE * totals.sum(dim=0) / len(own) + 1e-12


def _phases(episodes: Ids) -> torch.Tensor:
    """The part of its episode that each sample is in, (m,), by its place among the episode's samples."""
    _, place, counts = np.unique(episodes, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")
    rank = np.empty(len(place), np.int64)
    rank[order] = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    return torch.from_numpy(rank * PHASES // counts[place])


def _relative_to_usual(unusual: Vector, episodes: Ids) -> Vector:
    _, place = np.unique(episodes, return_inverse=True)
    # Geometric means: one wild window does not make a demonstration unusual.
    of_demos = np.exp(np.bincount(place, weights=np.log(unusual + LITTLE)) / np.bincount(place))
    low, median = np.quantile(of_demos, (0.1, 0.5))
    return np.asarray(np.clip(of_demos / (median + SPREADS * (median - low)), 1.0, LARGEST)[place])
