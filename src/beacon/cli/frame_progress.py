"""Progress over the frames of datasets: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beacon.cli.train_progress import in_words

LINES = 10  # where there is no terminal


@contextmanager
def frame_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar with the time left on a terminal, at most ten plain lines elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _plain_lines() -> Callable[[str, int, int], None]:
    began, told = time.monotonic(), -1

    def tell(what: str, done: int, total: int) -> None:
        nonlocal told
        step = LINES * done // max(total, 1)
        if step > told:
            told = step
            left = (time.monotonic() - began) * (total - done) / done if done else None
            soon = f", {in_words(left)} left" if left else ""
            print(f"{what}: {100 * done // max(total, 1)}%{soon}", file=sys.stderr, flush=True)

    return tell
