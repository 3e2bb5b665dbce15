"""Nearest neighbours by brute force, a chunk of queries at a time, on the device of the embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from beacon.devices import upload
from beacon.weighting.discrepancy.knn import CHUNK_BYTES
from beacon.weighting.validation import Ids

STRIPS = 4  # that a row of the table is folded into before the selection
PAIRS = 1 << 18  # of a query and a point of its own group, that are left out together
CANCELLATION = 1e-2  # a squared distance below this share of the squared norms is computed again, directly


class Neighbors(NamedTuple):
    """For every query its nearest points, nearest first; distance inf and index 0 where there are too few."""

    distances: torch.Tensor  # (queries, k) float32
    indices: torch.Tensor  # (queries, k) int64

    def mean_distance(self) -> torch.Tensor:
        """Mean over the neighbours that exist, (queries,) float64; inf where there is none."""
        return masked_mean(self.distances, torch.isfinite(self.distances))


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of every row over the true entries of its mask, float64; inf for a row without any."""
    total = torch.where(mask, values, 0.0).sum(dim=1, dtype=torch.float64)
    mean = total / mask.sum(dim=1)
    return torch.where(mask.any(dim=1), mean, torch.inf)


def nearest(
    queries: torch.Tensor,
    points: torch.Tensor,
    k: int,
    query_groups: Ids | None = None,
    point_groups: Ids | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Neighbors:
    """The k points nearest to every query; points of the query's own group are left out.

    Args:
        queries: (m, D) float32.
        points: (n, D) float32.
        k: how many; at most n are returned.
        query_groups: (m,) ids; together with ``point_groups`` (n,).
        point_groups: (n,) ids.
        chunk_bytes: bound of the distance table in memory.
    """
    k = min(k, len(points))
    distances = torch.empty(len(queries), k, device=queries.device)
    indices = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    for part, found in nearest_by_parts(queries, points, k, None, query_groups, point_groups, chunk_bytes):
        distances[part], indices[part] = found
    return Neighbors(distances, indices)


def nearest_by_parts(
    queries: torch.Tensor,
    points: torch.Tensor,
    k: int,
    rows: Ids | None = None,
    query_groups: Ids | None = None,
    point_groups: Ids | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[slice, Neighbors]]:
    """As `nearest`, a part of the queries at a time: the neighbours of millions need not exist together.

    Distances come from ``‖a‖² + ‖b‖² − 2ab``, one matrix product; the chosen ones for which that
    would cancel are computed again from the differences.

    Args:
        queries: (M, D) float32.
        points: (n, D) float32.
        k: how many; at most n are found.
        rows: (m,) which of the queries ask; None: all.
        query_groups: (m,) ids of those that ask; together with ``point_groups`` (n,).
        point_groups: (n,) ids.
        chunk_bytes: bound of the distance table in memory.
    """
    k = min(k, len(points))
    centre = _centre(points)
    points = points if centre is None else points - centre
    point_norms = points.square().sum(dim=1)
    table = points.T.contiguous()
    step = max(1, chunk_bytes // (4 * max(1, len(points))))
    count = len(queries) if rows is None else len(rows)
    # The same memory for all chunks: fresh pages for each would cost more than the selection.
    scratch = torch.empty(min(step, count), len(points), device=queries.device)
    centred = None if centre is None else queries.new_empty(len(scratch), queries.shape[1])
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        asking = part if rows is None else upload(torch.from_numpy(rows[part]), queries.device)
        chunk = queries[asking]
        if centre is not None and centred is not None:
            chunk = torch.sub(chunk, centre, out=centred[: len(chunk)])
        # ‖b‖² − 2ab orders the points as the distance does; ‖a‖² is added for the chosen ones alone.
        scores = torch.addmm(point_norms, chunk, table, alpha=-2.0, out=scratch[: len(chunk)])
        if query_groups is not None and point_groups is not None:
            _leave_out(scores, query_groups[part], point_groups)
        score, index = smallest(scores, k)
        norms = torch.linalg.vector_norm(chunk, dim=1, keepdim=True).square_()
        squared = (score + norms).clamp_min_(0.0)
        doubtful = (squared < CANCELLATION * (norms + point_norms[index])).nonzero(as_tuple=True)
        if len(doubtful[0]):
            difference = chunk[doubtful[0]] - points[index[doubtful]]
            squared[doubtful] = difference.square().sum(dim=1)
        distances, order = squared.sqrt_().sort(dim=1)
        yield part, Neighbors(distances, index.gather(1, order))


def _centre(points: torch.Tensor) -> torch.Tensor | None:
    """What to subtract from everything, since far from the origin the formula loses digits; None: nothing,
    where the points are as far from their mean as it is from the origin, and at most one bit is at stake.
    """
    centre = points.mean(dim=0)
    spread = (points - centre).square().sum(dim=1).mean()
    return None if centre.square().sum() <= spread else centre


def smallest(table: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k smallest numbers of every row in any order, and where they are.

    On the CPU, topk takes a fifth of the time of the product before it. The k smallest lie in the k columns
    with the smallest minima once the row is folded into a few strips, and minima of strips are vectorised.
    """
    columns = table.shape[1]
    strip = columns // STRIPS
    if table.device.type != "cpu" or strip < 8 * k:
        return _topk(table, k)
    folded = table[:, : strip * STRIPS].unflatten(1, (STRIPS, strip)).amin(dim=1)
    candidates = (_topk(folded, k)[1][:, :, None] + strip * torch.arange(STRIPS)).flatten(1)
    if strip * STRIPS < columns:
        rest = torch.arange(strip * STRIPS, columns).expand(len(table), -1)
        candidates = torch.cat([candidates, rest], dim=1)
    values, place = _topk(table.gather(1, candidates), k)
    return values, candidates.gather(1, place)


def _topk(table: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.topk(table, k, dim=1, largest=False, sorted=False)
    return values, places


def _leave_out(scores: torch.Tensor, query_groups: Ids, point_groups: Ids) -> None:
    """Set the scores of points of the query's own group to infinity, without another table of that size."""
    order = np.argsort(point_groups, kind="stable")
    first = np.searchsorted(point_groups[order], query_groups, "left")
    counts = np.searchsorted(point_groups[order], query_groups, "right") - first
    pairs = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = pairs[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(pairs, before + PAIRS, "right")))
        part = slice(start, stop)
        rows = np.repeat(np.arange(start, stop), counts[part])
        within = np.arange(len(rows)) - np.repeat(pairs[part] - counts[part] - before, counts[part])
        columns = order[np.repeat(first[part], counts[part]) + within]
        where = tuple(upload(torch.from_numpy(index), scores.device) for index in (rows, columns))
        scores[where] = torch.inf
        start = stop
