"""Passes over long vectors in cache-sized chunks, on as many threads as torch may use.

The chunks, and the order in which their results are combined, depend on the length alone: the same
input gives the same bits whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

CHUNK = 1 << 14  # values; a handful of float64 temporaries of this size stay in a core's own cache
WORTH_THREADS = 1 << 19  # values; below, a pass takes no longer than starting threads

Result = TypeVar("Result")


def map_chunks(function: Callable[[slice], Result], length: int) -> list[Result]:
    """``[function(chunk) for chunk in chunks]``, in order; NumPy releases the interpreter lock inside."""
    slices = [slice(start, min(start + CHUNK, length)) for start in range(0, length, CHUNK)]
    threads = torch.get_num_threads() if length >= WORTH_THREADS else 1
    if threads <= 1:
        return [function(part) for part in slices]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, slices))
