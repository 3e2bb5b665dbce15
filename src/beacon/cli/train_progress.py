"""What ``beacon train`` says while it works: what the run is, how far it is, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beacon.training.config import TrainConfig
    from beacon.training.trainer import StepEvent


class TimeLeft:
    """Time left by what all of this session took, refreshes of the weights and checkpoints included.

    A mean over the last seconds would not know of refreshes, which come once an epoch.

    Args:
        clock: seconds now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None  # the first step that ended, and when

    def __call__(self, step: int, steps: int) -> float | None:
        """Seconds left after ``step`` of ``steps``; None as long as nobody can tell."""
        now = self._clock()
        if self._first is None:
            self._first = (step, now)  # what comes before it, such as compiling, comes once
            return None
        done = step - self._first[0]
        return (now - self._first[1]) / done * (steps - step) if done > 0 else None


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


@contextmanager
def progress(config: TrainConfig) -> Iterator[Callable[[StepEvent], None]]:
    """A bar with the loss and the time left on a terminal, ten plain lines a run elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    left = TimeLeft()
    if not console.is_terminal:
        every = max(1, config.optimization.steps // 10)

        def report(event: StepEvent) -> None:
            remaining = left(event.step, event.steps)
            if event.step % every == 0:
                soon = "" if event.step == event.steps else f", {in_words(remaining)} left"
                print(f"step {event.step} of {event.steps}, loss {event.loss():.4f}{soon}", flush=True)

        yield report
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left {task.fields[left]}"),
    )
    with Progress(*columns, refresh_per_second=2, console=console) as bar:
        task = bar.add_task(config.method, total=config.optimization.steps, loss="-", left="-")

        def show(event: StepEvent) -> None:
            bar.update(task, completed=event.step, left=in_words(left(event.step, event.steps)))
            if event.step % config.run.log_every == 0:
                bar.update(task, loss=f"{event.loss():.4f}")

        yield show
