"""What ``beacon train`` says while it works: what the run is, how far it is, how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from beacon.cli.messages import shown_messages
from beacon.cli.plain_lines import PlainLines, in_words
from beacon.progress import listening

if TYPE_CHECKING:
    from beacon.training.config import TrainConfig
    from beacon.training.trainer import StepEvent


class TimeLeft:
    """Time left, by the steps of this session and by what happens between its epochs.

    A mean over the last seconds would not know of what comes once an epoch: refreshes of the weights,
    validation and checkpoints.

    Args:
        steps_per_epoch: of the run.
        clock: seconds now.
    """

    def __init__(self, steps_per_epoch: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._length, self._clock = steps_per_epoch, clock
        self._before: float | None = None  # when the last step ended
        self._inside, self._across = _Mean(), _Mean()  # seconds to a step within an epoch, and to its first

    def __call__(self, step: int, steps: int) -> float | None:
        """Seconds left after ``step`` of ``steps``; None as long as nobody can tell."""
        now = self._clock()
        # What comes before the first step of a session, such as compiling, comes once.
        if self._before is not None:
            (self._across if step % self._length == 1 % self._length else self._inside).add(
                now - self._before
            )
        self._before = now
        if not self._inside.count and not self._across.count:
            return None
        starts = steps // self._length - -(-step // self._length)  # epochs that have not begun
        across = self._across.value if self._across.count else self._inside.value
        inside = self._inside.value if self._inside.count else across
        return starts * across + (steps - step - starts) * inside


class _Mean:
    """A mean of numbers that come one by one."""

    def __init__(self) -> None:
        self.count, self._sum = 0, 0.0

    def add(self, value: float) -> None:
        self.count, self._sum = self.count + 1, self._sum + value

    @property
    def value(self) -> float:
        return self._sum / self.count


@contextmanager
def progress(config: TrainConfig) -> Iterator[Callable[[StepEvent], None]]:
    """A bar with the loss and the time left on a terminal, ten plain lines a run elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    left = TimeLeft(config.optimization.steps_per_epoch)
    if not console.is_terminal:
        every = max(1, config.optimization.steps // 10)

        def report(event: StepEvent) -> None:
            remaining = left(event.step, event.steps)
            if event.step % every == 0:
                soon = "" if event.step == event.steps else f", {in_words(remaining)} left"
                print(f"step {event.step} of {event.steps}, loss {event.loss():.4f}{soon}", flush=True)

        with shown_messages(lambda message: print(message, flush=True)), listening(PlainLines(sys.stdout)):
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
    with (
        Progress(*columns, refresh_per_second=2, console=console) as bar,
        shown_messages(lambda message: console.print(message, markup=False, highlight=False)),
    ):
        task = bar.add_task(f"{config.method}: starting", total=None, loss="-", left="-")

        def prepare(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what} {100 * done // max(total, 1)}%")

        def show(event: StepEvent) -> None:
            soon = in_words(left(event.step, event.steps))
            bar.update(task, description=config.method, completed=event.step, total=event.steps, left=soon)
            if event.step % config.run.log_every == 0:
                bar.update(task, loss=f"{event.loss():.4f}")

        with listening(prepare):
            yield show
