"""Do demonstrations that see alike do alike? A check of actions by what other demonstrations do.

The action chunk of a window is predicted by the mean chunk of the windows that look most like it, of all
domains, its own demonstration left out. Demonstrations whose actions differ from their neighbours' more than
is common at that part of an episode have wrong actions, another goal, or images that do not show what the
others' do. Most of the source must be sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.data.image_features import ImageFeatures
from beacon.weighting.checks.base import CHECKS, BuiltCheck, Check
from beacon.weighting.chunks import CHUNK
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Ids, Vector, require

if TYPE_CHECKING:
    import torch

    from beacon.data.context import DataContext

ROWS = 1024  # windows whose neighbours' chunks are in memory together


@CHECKS.register("neighbor-actions")
@dataclass(frozen=True)
class NeighborActionCheck(Check):
    """Compare a demonstration's actions with those of demonstrations that look alike.

    The factor is one for a source demonstration that differs as much as is usual: above the median by at most
    ``tolerance`` times what the tenth percentile is below it.
    """

    # Neighbours of a window.
    k: int = 10
    # Windows, drawn at random where there are more, among which neighbours are searched.
    pool: int = 8_000
    # Parts of an episode, each with differences of its own that are common there.
    phases: int = 10
    # Share of what is common in the whole episode: the least to compare with, and the least that counts.
    floor: float = 0.1
    # Distances from the tenth percentile to the median, so far above which a demonstration is usual still.
    tolerance: float = 2.5
    # Largest factor.
    largest_factor: float = 5.0
    # What looks alike before the encoder has learned: coarse "pictures", whose say gives way to the learned
    # embeddings evenly until the last refresh, or "none", embeddings alone.
    prior: Literal["pictures", "none"] = "pictures"
    # Of the coarse pictures.
    image_features: ImageFeatures = field(default_factory=ImageFeatures)

    needs: ClassVar[frozenset[str]] = frozenset({"embeddings", "actions", "episodes"})

    def __post_init__(self) -> None:
        for name in ("k", "pool", "phases"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("floor", "tolerance"):
            require(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
        require(self.largest_factor >= 1, "largest_factor", "at least 1", self.largest_factor)

    def build(self, context: DataContext | Any) -> BuiltCheck:
        """The check of a run; without a context there are no pictures, and embeddings alone decide."""
        if self.prior == "none" or context is None:
            return _NeighborActions(self, None)
        return _NeighborActions(self, picture_factors(context, self))


@dataclass(eq=False)
class _NeighborActions(BuiltCheck):
    options: NeighborActionCheck
    prior: Vector | None

    shards: ClassVar[bool] = True

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        factors = disagreement_factors(inputs, self.options)
        if self.prior is not None:
            factors = (1.0 - inputs.progress) * self.prior + inputs.progress * factors
        return PerSample(factors, {"neighbor_actions": float(factors.mean())})


def picture_factors(context: DataContext, options: NeighborActionCheck) -> Vector:
    """The factors of all source windows, (m,), where windows look alike by coarse pictures."""
    windows, domains = context.windows, context.domains
    source, target = context.source_windows, context.target_windows
    features = options.image_features.of(windows).to(context.device)
    actions = windows.gather(np.arange(len(windows)), images=False).actions.flatten(1).to(context.device)
    if domains.target is None:
        raise ValueError("a check needs target demonstrations")
    inputs = RefreshInputs(
        source=features[source],
        target=features[target],
        source_domains=windows.domain[source].astype(np.int64),
        source_labels=domains.sources,
        target_label=domains.target,
        source_episodes=windows.episode[source].astype(np.int64),
        target_episodes=windows.episode[target].astype(np.int64),
        source_actions=actions[source],
        target_actions=actions[target],
        seed=context.seed,
    )
    return disagreement_factors(inputs, options)


def disagreement_factors(inputs: RefreshInputs, options: NeighborActionCheck) -> Vector:
    """How much more than usual the demonstration of each source sample differs from its neighbours, (m,)."""
    unusual = inputs.together(_unusual(inputs, options))
    return _relative_to_usual(unusual, inputs.episodes()[0], options)


def _unusual(inputs: RefreshInputs, options: NeighborActionCheck) -> torch.Tensor:
    """How much each of the own source samples differs, in units of what is common at its phase."""
    import torch

    episodes, _ = inputs.episodes()
    own = inputs.actions()[0].flatten(1)
    rows = slice(inputs.shard.start, inputs.shard.start + len(own))
    phases = _phases(episodes, options.phases)
    counts = torch.from_numpy(np.bincount(phases, minlength=options.phases)).to(own.device)
    phase = torch.from_numpy(phases[rows]).to(own.device)
    pool = _Pool.draw(inputs, options.pool)
    voters = _voters(inputs, pool, options.k, episodes[rows])
    totals = own.new_zeros(options.phases, own.shape[1])
    for part, squares in _squares(voters, pool.answers, own):
        totals.index_add_(0, phase[part].int(), squares)
    common = _common(inputs.shard.sum(totals), counts, options)
    unusual = torch.empty(len(own), dtype=torch.float64, device=own.device)
    for part, squares in _squares(voters, pool.answers, own):
        unusual[part] = (squares / common[phase[part].int()]).mean(dim=1).double()
    return unusual


@dataclass(frozen=True, eq=False)
class _Pool:
    """The samples among which neighbours are searched: embeddings, action chunks, demonstrations."""

    points: torch.Tensor
    answers: torch.Tensor
    groups: Ids

    @classmethod
    def draw(cls, inputs: RefreshInputs, most: int) -> _Pool:
        """Of source and target, at random where there are more than ``most``."""
        import torch

        source, target = inputs.embeddings()
        own, others = (chunks.flatten(1) for chunks in inputs.actions())
        episodes, target_episodes = inputs.episodes()
        total = len(episodes) + len(target)
        drawn = np.arange(total)
        if total > most:
            drawn = np.sort(np.random.default_rng(inputs.seed).permutation(total)[:most])
        of_source, of_target = drawn[drawn < len(episodes)], drawn[drawn >= len(episodes)] - len(episodes)
        chosen = torch.from_numpy(of_target).to(target.device)
        return cls(
            torch.cat([inputs.rows_of(source, of_source), target[chosen]]),
            torch.cat([inputs.rows_of(own, of_source), others[chosen]]),
            # Source and target may have numbered their demonstrations alike.
            np.concatenate([episodes[of_source], target_episodes[of_target] + int(episodes.max()) + 1]),
        )


def _voters(inputs: RefreshInputs, pool: _Pool, k: int, episodes: Ids) -> torch.Tensor:
    """The own source samples' neighbours in the pool, (rows, k); −1 where there are too few."""
    import torch

    from beacon.weighting.discrepancy.neighbors import nearest_by_parts

    source, _ = inputs.embeddings()
    # Small numbers: of millions of samples this is the largest table.
    kind = torch.int16 if len(pool.points) <= torch.iinfo(torch.int16).max else torch.int32
    voters = torch.empty(len(source), min(k, len(pool.points)), dtype=kind, device=source.device)
    for part, found in nearest_by_parts(source, pool.points, k, None, episodes, pool.groups):
        voters[part] = torch.where(torch.isfinite(found.distances), found.indices, -1).to(kind)
    return voters


def _squares(
    voters: torch.Tensor, answers: torch.Tensor, own: torch.Tensor
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Squared differences of chunks from their neighbours' mean, (rows, A) at a time; 0 without
    neighbours.
    """
    for start in range(0, len(own), ROWS):
        part = slice(start, start + ROWS)
        known = voters[part] >= 0
        votes = known.to(own.dtype).unsqueeze(-1)  # (rows, k, 1)
        chunks = answers[voters[part].clamp_min(0).long()]
        mean = (chunks * votes).sum(dim=1) / votes.sum(dim=1).clamp_min(1.0)
        yield part, (mean - own[part]).square() * known.any(dim=1, keepdim=True)


def _common(totals: torch.Tensor, counts: torch.Tensor, options: NeighborActionCheck) -> torch.Tensor:
    """Squared differences that are common at every phase, (phases, A), from their sums and numbers."""
    each = totals / counts.clamp_min(1).unsqueeze(1)
    return each + options.floor * totals.sum(dim=0) / counts.sum() + 1e-12


def _phases(episodes: Ids, phases: int) -> NDArray[np.integer[Any]]:
    """The part of its episode that each sample is in, (m,), by its rank among the episode's samples."""
    counts = np.bincount(episodes)
    seen = np.zeros_like(counts)  # samples of every episode so far
    kind: Any = np.uint8 if phases <= np.iinfo(np.uint8).max else np.int32
    parts: NDArray[np.integer[Any]] = np.empty(len(episodes), kind)
    for start in range(0, len(episodes), CHUNK):  # lists of millions would be larger than the result
        chunk = episodes[start : start + CHUNK]
        order = np.argsort(chunk, kind="stable")
        here = np.bincount(chunk, minlength=len(counts))
        rank = np.empty(len(chunk), np.int64)
        rank[order] = np.arange(len(chunk)) - np.repeat(np.cumsum(here) - here, here)
        parts[start : start + CHUNK] = (seen[chunk] + rank) * phases // counts[chunk]
        seen += here
    return parts


def _relative_to_usual(unusual: Vector, episodes: Ids, options: NeighborActionCheck) -> Vector:
    counts = np.bincount(episodes)
    # Geometric means: one wild window does not make a demonstration unusual.
    logs = np.log(np.add(unusual, options.floor, out=unusual), out=unusual)
    logs = np.bincount(episodes, weights=logs) / np.maximum(counts, 1)
    of_demos = np.exp(logs)
    low, median = np.quantile(of_demos[counts > 0], (0.1, 0.5))
    usual = median + options.tolerance * (median - low)
    return np.asarray(np.clip(of_demos / usual, 1.0, options.largest_factor)[episodes])
