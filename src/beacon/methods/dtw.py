"""Dynamic time warping of many pairs of sequences at once, in plain NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Sequence2D = NDArray[np.float64]  # (steps, dimensions)

# Pairs of one dynamic program: enough to hide what a step costs in Python, few enough for memory.
TOGETHER = 256
MOST_THREADS = 4  # each takes a third of a gigabyte at a few hundred steps


@dataclass(frozen=True, eq=False)
class Alignments:
    """DTW of every target sequence (T of them) with every source sequence (S)."""

    distance: NDArray[np.float64]  # (T, S), the sum of distances along the best path
    # Per target sequence (S, steps): the first and the last source step that each target step is aligned to.
    first: list[NDArray[np.int32]]
    last: list[NDArray[np.int32]]


def align_all(
    targets: Sequence[Sequence2D], sources: Sequence[Sequence2D], workers: int | None = None
) -> Alignments:
    """Align all targets with all sources, by up to ``MOST_THREADS`` threads."""
    order = np.argsort([len(s) for s in sources], kind="stable")  # like lengths together: little padding
    chunks = [order[start : start + TOGETHER] for start in range(0, len(order), TOGETHER)]
    padded = [_pad([sources[i] for i in chunk]) for chunk in chunks]
    distance = np.empty((len(targets), len(sources)))
    first = [np.empty((len(sources), len(t)), np.int32) for t in targets]
    last = [np.empty((len(sources), len(t)), np.int32) for t in targets]

    def work(job: tuple[int, int]) -> None:
        t, c = job
        aligned = align(targets[t], *padded[c])
        distance[t, chunks[c]], first[t][chunks[c]], last[t][chunks[c]] = aligned

    jobs = [(t, c) for t in range(len(targets)) for c in range(len(chunks))]
    # Threads, because NumPy lets go of the interpreter while it computes, and nothing is copied.
    with ThreadPoolExecutor(workers or min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(work, jobs):
            pass
    return Alignments(distance, first, last)


def align(
    target: Sequence2D, sources: NDArray[np.float64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """DTW of one target (T, d) with P sources padded to one length, (S, P, d), of these true lengths.

    D_ij = ‖x_i − y_j‖ + min(D_{i−1,j}, D_{i,j−1}, D_{i−1,j−1})     (Sakoe and Chiba 1978)

    One anti-diagonal i + j = k at a time, because its cells do not depend on each other, of all pairs
    together. Returns D at the end (P,), and the first and last source step on the best path at every target
    step, (P, T) each. Where several moves are equally good the path takes both steps at once, then a source
    step.
    """
    steps, width = len(target), len(sources)
    pairs = sources.shape[1]
    local = cdist(target, sources.reshape(width * pairs, -1)).reshape(steps * width, pairs)
    # D with a border of infinities before the first steps; cell (j, i) is row (j + 1) (width + 1) + i + 1.
    row = width + 1
    total = np.empty(((steps + 1) * row, pairs))
    total[:row] = np.inf
    total[::row] = np.inf
    total[0] = 0.0
    for k in range(steps + width - 1):
        low, high = max(0, k - steps + 1), min(k, width - 1)  # source steps on this diagonal
        count = high - low + 1
        here = (k - high + 1) * row + high + 1  # from the largest source step downwards
        best = np.minimum(total[_every(here - 1, count, width)], total[_every(here - row, count, width)])
        np.minimum(best, total[_every(here - row - 1, count, width)], out=best)
        cost = local[_every((k - high) * width + high, count, max(1, width - 1))]
        np.add(best, cost, out=total[_every(here, count, width)])
    ends = total[steps * row + lengths, np.arange(pairs)]
    first, last = _walk_back(total, lengths, steps, row)
    return ends, first, last


def _walk_back(
    total: NDArray[np.float64], lengths: NDArray[np.int64], steps: int, row: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The source steps on the best path at every target step, for all pairs together."""
    flat, pairs = total.reshape(-1), len(lengths)
    pair = np.arange(pairs)
    first, last = np.zeros((pairs, steps), np.int32), np.zeros((pairs, steps), np.int32)
    i, j = lengths - 1, np.full(pairs, steps - 1)
    last[:, -1] = i
    while len(pair):
        first[pair, j] = i
        done = (i == 0) & (j == 0)
        if done.any():
            pair, i, j = pair[~done], i[~done], j[~done]
        here = ((j + 1) * row + i + 1) * pairs + pair
        both, source = flat[here - (row + 1) * pairs], flat[here - pairs]
        target = flat[here - row * pairs]
        by_source = (both <= np.minimum(source, target)) | (source <= target)
        by_target = (both <= source) & (both <= target) | (source > target)
        i, j = i - by_source, j - by_target
        last[pair[by_target], j[by_target]] = i[by_target]
    return first, last


def _every(start: int, count: int, step: int) -> slice:
    return slice(start, start + count * step, step)


def _pad(sequences: list[Sequence2D]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sequences side by side, (longest, P, d), their ends repeated, and their lengths (P,)."""
    lengths = np.array([len(s) for s in sequences])
    padded = np.stack([s[np.minimum(np.arange(lengths.max()), len(s) - 1)] for s in sequences], axis=1)
    return padded.astype(np.float64), lengths
