"""Who the training samples are: the domain and the demonstration of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.weighting.inputs import Label, RefreshInputs
from beacon.weighting.objective import TARGET
from beacon.weighting.shard import Shard
from beacon.weighting.validation import Ids, Mask, Vector, number_episodes, to_numpy


@dataclass(frozen=True, eq=False)
class Samples:
    """The domain and, where known, the demonstration of every training sample."""

    target_label: Label
    source_labels: tuple[Label, ...]  # sorted
    source: Ids  # (N,) index into source_labels, or TARGET
    episodes: Ids | None  # (N,) index into episode_labels
    episode_labels: tuple[Label, ...] = ()  # as the user gave them, sorted

    @classmethod
    def read(cls, domains: Any, target: Label, episodes: Any = None) -> Samples:
        """Check and number the labels that a user gives, one per sample."""
        source_labels, source = _number_domains(domains, target)
        if episodes is None:
            return cls(target, source_labels, source, None)
        episode_labels, ids = number_episodes(episodes, len(source))
        return cls(target, source_labels, source, ids, episode_labels)

    def __len__(self) -> int:
        return self.source.size

    @property
    def on_target(self) -> Mask:
        """Which samples are the target's, (N,)."""
        return np.asarray(self.source == TARGET)

    @property
    def labels(self) -> tuple[Label, ...]:
        """All domains, the target first."""
        return (self.target_label, *self.source_labels)

    def members(self, label: Label) -> Mask:
        """Which samples are of this domain, (N,)."""
        number = TARGET if label == self.target_label else self.source_labels.index(label)
        return np.asarray(self.source == number)

    def demo_means(self, values: Vector) -> Vector:
        """Every value replaced by the mean over its demonstration, (N,)."""
        if self.episodes is None:
            raise ValueError("episodes: the demonstration id of every sample is needed")
        means = np.bincount(self.episodes, weights=values) / np.bincount(self.episodes)
        return np.asarray(means[self.episodes])

    def fingerprint(self) -> NDArray[np.uint8]:
        """A hash of the labels and their order."""
        digest = hashlib.sha256(repr(self.labels).encode() + self.source.tobytes()).digest()
        return np.frombuffer(digest, dtype=np.uint8).copy()

    def split(
        self,
        embeddings: torch.Tensor | None,
        actions: torch.Tensor | None,
        seed: int,
        progress: float,
        shard: Shard,
    ) -> RefreshInputs:
        """What a discrepancy estimator gets to see of the features and chunks of a shard."""
        target, source = self.on_target, ~self.on_target
        own_target, own_source = target[shard.rows], source[shard.rows]
        return RefreshInputs(
            source=_rows(embeddings, own_source),
            target=_everywhere(_rows(embeddings, own_target), shard),
            source_domains=self.source[_as_slice(source)],
            source_labels=self.source_labels,
            target_label=self.target_label,
            source_episodes=None if self.episodes is None else self.episodes[_as_slice(source)],
            target_episodes=None if self.episodes is None else self.episodes[_as_slice(target)],
            source_actions=_rows(actions, own_source),
            target_actions=_everywhere(_rows(actions, own_target), shard),
            seed=seed,
            progress=progress,
            shard=self._of_source(shard),
        )

    def _of_source(self, shard: Shard) -> Shard:
        """The same share, counted among the source samples."""
        if shard.is_whole:
            return shard
        source = ~self.on_target
        start = int(np.count_nonzero(source[: shard.start]))
        return replace(shard, start=start, stop=start + int(np.count_nonzero(source[shard.rows])))


def _as_slice(chosen: Mask) -> slice | Mask:
    """What chooses the same rows, without a copy where they follow each other."""
    count, first = int(np.count_nonzero(chosen)), int(np.argmax(chosen)) if chosen.size else 0
    return slice(first, first + count) if chosen[first : first + count].all() else chosen


def _rows(matrix: torch.Tensor | None, chosen: Mask) -> torch.Tensor | None:
    if matrix is None:
        return None
    rows = _as_slice(chosen)
    return matrix[rows] if isinstance(rows, slice) else matrix[torch.from_numpy(rows).to(matrix.device)]


def _everywhere(rows: torch.Tensor | None, shard: Shard) -> torch.Tensor | None:
    return None if rows is None else shard.gather(rows)


def _number_domains(domains: Any, target: Label) -> tuple[tuple[Label, ...], Ids]:
    """The source labels, sorted, and for every sample the index of its source domain or `TARGET`."""
    array = to_numpy("domains", domains)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"domains: expected one label per sample, got shape {array.shape}")
    if array.dtype.kind not in "iuU":
        raise ValueError(f"domains: labels must be all int or all str, got {array.dtype}")
    if array.dtype.kind == "i" and (array < 0).any():
        first = int(np.argmax(array < 0))
        raise ValueError(f"domains[{first}] = {array[first]} is negative; domain ids start at 0")
    if (array.dtype.kind == "U") != isinstance(target, str):
        raise ValueError(f"target: {target!r} is not of the labels' type in domains")
    labels, index = np.unique(array, return_inverse=True)
    names: list[Label] = [label.item() for label in labels]
    if target not in names:
        raise ValueError(f"target: no sample is of the target domain {target!r}; domains has {names}")
    if len(names) == 1:
        raise ValueError(f"domains: every sample is of the target domain {target!r}; there is no source")
    number = names.index(target)
    source = np.where(index == number, TARGET, index - (index > number)).astype(np.int64)
    return tuple(name for name in names if name != target), source
