"""Passes over long vectors in chunks whose temporaries stay in the cache.

One thread: the steps of a pass are so short that threads would spend their time handing the interpreter
lock to each other (measured: two threads took as long as one with large chunks, and longer with small ones).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

CHUNK = 1 << 17  # values; a megabyte of float64

Result = TypeVar("Result")


def map_chunks(function: Callable[[slice], Result], length: int) -> list[Result]:
    """``[function(chunk) for chunk in chunks]``, in order."""
    return [function(slice(start, min(start + CHUNK, length))) for start in range(0, length, CHUNK)]
