"""Progress of work that is told of: a bar on a terminal, a few lines elsewhere, nothing where it is short."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from beacon.progress import Listener, listening

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


@contextmanager
def shown_progress() -> Iterator[Listener]:
    """Show how far reading, auditing, training and drawing are, with the time left, after two seconds.

    On a terminal it is a bar; in notebooks and log files at most ten lines for each piece of work. The value
    is a function ``(what, done, total)`` for work of your own.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        lines = PlainLines()
        with listening(lines):
            yield lines
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    began, place = time.monotonic(), (0, 0)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(what: str, done: int, total: int) -> None:
            nonlocal place
            if is_another(place, done, total):
                bar.reset(task)
            place = done, total
            visible = time.monotonic() - began > PATIENCE
            bar.update(task, description=what, completed=done, total=total, visible=visible)

        with listening(show):
            yield show
