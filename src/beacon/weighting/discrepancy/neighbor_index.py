"""Nearest neighbours by an inverted index (faiss): approximate, for targets of very many samples."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from beacon.weighting.discrepancy.neighbors import Neighbors

PROBED_SHARE = 0.1  # of the lists that are searched; the more, the nearer to exact
ROWS = 1 << 16  # queries that are searched for together
TRAINING_ROWS = 64  # points a list that the lists are found from


def nearest_by_index(
    queries: torch.Tensor, points: torch.Tensor, k: int, probed_share: float = PROBED_SHARE
) -> Iterator[tuple[slice, Neighbors]]:
    """About the k points nearest to every query, a part of the queries at a time.

    Those that are in the lists nearest to it: √n lists (Jégou et al. 2011, IVF); a query looks into a share
    of them. Neighbours that are missed are replaced by farther ones, so distances are too large, never too
    small. Computed on the CPU.

    Args:
        queries: (m, D) float32.
        points: (n, D) float32.
        k: how many; at most n are found.
        probed_share: of the lists that are searched.
    """
    try:
        import faiss
    except ImportError:
        raise ValueError("index_beyond: needs faiss; pip install faiss-cpu") from None
    faiss.omp_set_num_threads(torch.get_num_threads())
    table = np.ascontiguousarray(points.detach().cpu().numpy(), np.float32)
    lists = max(1, round(math.sqrt(len(table))))
    coarse = faiss.IndexFlatL2(table.shape[1])
    index = faiss.IndexIVFFlat(coarse, table.shape[1], lists)
    index.cp.seed = 1
    index.train(table[:: max(1, len(table) // (TRAINING_ROWS * lists))])
    index.add(table)
    index.nprobe = max(1, math.ceil(probed_share * lists))
    for start in range(0, len(queries), ROWS):
        part = slice(start, min(start + ROWS, len(queries)))
        asked = np.ascontiguousarray(queries[part].detach().cpu().numpy(), np.float32)
        squared, indices = index.search(asked, min(k, len(table)))
        missing = indices < 0  # fewer than k points in the lists that were searched
        distances = np.where(missing, np.inf, np.sqrt(np.maximum(squared, 0)))
        yield (
            part,
            Neighbors(
                torch.from_numpy(distances.astype(np.float32)).to(queries.device),
                torch.from_numpy(np.where(missing, 0, indices)).to(queries.device),
            ),
        )
