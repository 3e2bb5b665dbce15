"""How far something is and how long it will take, in words: where there is no terminal for a bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

LINES = 10  # at most, for one thing that is done
PATIENCE = 2.0  # seconds before anything is shown


def in_words(seconds: float | None) -> str:
    """A span of time, as one says it.

    >>> [in_words(span) for span in (None, 7, 75, 4000, 200_000)]
    ['-', '7 s', '1 min 15 s', '1 h 07 min', '2 d 7 h']
    """
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


class PlainLines:
    """Lines about how far something is.

    Args:
        stream: where they are printed; by default stderr.
        clock: seconds now.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._place, self._began, self._told = (0, 0), 0.0, 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """So much is done; a line at every tenth, for what takes longer than two seconds."""
        now = self._clock()
        if is_another(self._place, done, total):
            self._began, self._told = now, 0
        self._place = done, total
        tenth = LINES * done // max(total, 1)
        if tenth <= self._told or now - self._began < PATIENCE or done >= total:
            return
        self._told = tenth
        left = in_words((now - self._began) * (total - done) / done)
        print(f"{what}: {100 * done // total}%, {left} left", file=self._stream or sys.stderr, flush=True)


def is_another(before: tuple[int, int], done: int, total: int) -> bool:
    """Whether another thing is done now, which has another speed.

    Args:
        before: how much was done last, and of how much.
        done: how much is done now.
        total: of how much.
    """
    return total != before[1] or done < before[0]
