"""Progress of work that is told of: a bar on a terminal, a few lines elsewhere, nothing where it is short."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from beacon.cli.plain_lines import PATIENCE, PlainLines, is_another
from beacon.progress import Listener, listening


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
            if is_another(place, done, total):
                bar.reset(task)
            place = done, total
            visible = time.monotonic() - began > PATIENCE
            bar.update(task, description=what, completed=done, total=total, visible=visible)

        with listening(show):
            yield show
