"""Progress of work that is told of: a bar on a terminal, a few lines elsewhere, nothing where it is short."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beacon.cli.train_progress import in_words
from beacon.progress import Listener, listening

LINES = 10  # at most, for one thing that is done, where there is no terminal
PATIENCE = 2.0  # seconds before anything is shown


@contextmanager
def frame_progress() -> Iterator[Listener]:
    """A bar with the time left on a terminal, at most ten plain lines elsewhere, both after two seconds.

    Within the block, everything that tells of its progress (`beacon.progress`) is shown, too.
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
            if _is_another(place, done, total):
                bar.reset(task)
            place = done, total
            visible = time.monotonic() - began > PATIENCE
            bar.update(task, description=what, completed=done, total=total, visible=visible)

        with listening(show):
            yield show


class PlainLines:
    """Lines about how far something is, on stderr.

    Args:
        clock: seconds now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._place, self._began, self._told = (0, 0), self._start, 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """So much is done; a line at every tenth, once two seconds have passed."""
        now = self._clock()
        if _is_another(self._place, done, total):
            self._began, self._told = now, 0
        self._place = done, total
        tenth = LINES * done // max(total, 1)
        if tenth <= self._told or now - self._start < PATIENCE or done >= total:
            return
        self._told = tenth
        left = in_words((now - self._began) * (total - done) / done)
        print(f"{what}: {100 * done // total}%, {left} left", file=sys.stderr, flush=True)


def _is_another(before: tuple[int, int], done: int, total: int) -> bool:
    """Whether another thing is done now, which has another speed."""
    return total != before[1] or done < before[0]
