"""Temporally aligned sampling: a target window and a source window of the same moment of the task."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data import Windows
from beacon.errors import RunError
from beacon.files import replacing
from beacon.methods.dtw import Alignments, align_all
from beacon.methods.sampling import Indices

FORMAT = b"dtw 1"  # changes with the algorithm, so that an old cache is not mistaken for a new one


class AlignedSampler:
    """Draws pairs of windows (Cheng et al. 2025, generalizable domain adaptation by unbalanced OT).

    A target window is drawn uniformly; then a source demonstration with probability ∝
    1 / (1 + exp(sharpness (d̄ − offset))), d̄ the DTW distance of both demonstrations' label sequences over
    the number of steps of the longer; then one of the source steps that DTW aligned to the target step,
    shifted by up to ``jitter`` steps and clipped to the episode.
    """

    def __init__(
        self,
        windows: Windows,
        target: int,
        alignments: Alignments,
        *,
        sharpness: float,
        offset: float,
        jitter: int,
    ) -> None:
        self._windows, self._alignments, self._jitter = windows, alignments, jitter
        self._targets = np.flatnonzero(windows.domain == target)
        self._target_demos = np.flatnonzero(windows.episode_domain == target)
        self._source_demos = np.flatnonzero(windows.episode_domain != target)
        self._starts = np.cumsum(windows.episode_length) - windows.episode_length
        lengths = windows.episode_length
        longer = np.maximum(lengths[self._target_demos][:, None], lengths[self._source_demos][None])
        self.distance: NDArray[np.float64] = alignments.distance / longer  # (T, S), d̄
        logits = sharpness * (self.distance - offset)
        # Relative to the best source demonstration, so that one far from all still has a partner.
        likelihood = np.exp(-np.logaddexp(0.0, logits) + np.logaddexp(0.0, logits.min(1, keepdims=True)))
        self.probability: NDArray[np.float64] = likelihood / likelihood.sum(1, keepdims=True)  # (T, S)
        self._cumulated = np.cumsum(self.probability, axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """``count`` target windows and their source partners."""
        windows = self._windows
        target = self._targets[rng.integers(len(self._targets), size=count)]
        demo = np.searchsorted(self._target_demos, windows.episode[target])  # (count,) row of the tables
        points = rng.random(count) * self._cumulated[demo, -1]
        last = len(self._source_demos) - 1
        partner = np.minimum((self._cumulated[demo] <= points[:, None]).sum(axis=1), last)
        within, jitter = rng.random(count), rng.integers(-self._jitter, self._jitter + 1, size=count)
        step = np.empty(count, np.int64)
        for row in np.unique(demo):  # target demonstrations differ in length, so each has its own table
            chosen = demo == row
            place = (partner[chosen], windows.step[target[chosen]])
            low, high = self._alignments.first[row][place], self._alignments.last[row][place]
            step[chosen] = low + (within[chosen] * (high - low + 1)).astype(np.int64)
        episode = self._source_demos[partner]
        step = np.clip(step + jitter, 0, windows.episode_length[episode] - 1)
        return target, self._starts[episode] + step


def label_sequences(windows: Windows, key: str) -> list[NDArray[np.float64]]:
    """What ``key`` of the proprioception says over every episode, (steps, d) each."""
    sequences = []
    for episodes in windows.sets:
        values = episodes.proprio[key].astype(np.float64)
        sequences += [values[a : a + n] for a, n in zip(episodes.starts, episodes.lengths, strict=True)]
    return sequences


def default_cache() -> Path:
    """Where alignments are kept unless said otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beacon" / "alignments"


def cached_alignments(
    targets: list[NDArray[np.float64]], sources: list[NDArray[np.float64]], cache: Path | None = None
) -> Alignments:
    """`align_all`, or what an earlier run on the same sequences has left in the cache folder."""
    digest = hashlib.sha256(FORMAT)
    for part in (targets, sources):
        digest.update(repr([s.shape for s in part]).encode())
        for sequence in part:
            digest.update(np.ascontiguousarray(sequence).tobytes())
    file = (cache or default_cache()) / f"{digest.hexdigest()[:32]}.npz"
    lengths = [len(t) for t in targets]
    try:
        with np.load(file, allow_pickle=False) as stored:
            parts = [np.split(stored[name], np.cumsum(lengths)[:-1], axis=1) for name in ("first", "last")]
            return Alignments(stored["distance"], *parts)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # not there, or damaged: made anew
    alignments = align_all(targets, sources)
    try:
        with replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(
                stream,
                distance=alignments.distance,
                first=np.concatenate(alignments.first, axis=1),
                last=np.concatenate(alignments.last, axis=1),
            )
    except RunError:
        pass  # a cache that cannot be written only costs the next run some time
    return alignments
