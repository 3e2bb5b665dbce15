"""What ``beacon train`` says while it works: what the run is, how far it is, how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from beacon.cli.messages import shown_messages
from beacon.progress import listening
from beacon.progress_display import PlainLines, in_words

if TYPE_CHECKING:
    from beacon.training.config import TrainConfig
    from beacon.training.trainer import StepEvent

BLOCK = 20  # steps that are averaged before blocks are compared
LONGEST = 2.0  # times the median


class TimeLeft:
    """Time left, by the steps of this session and by what happens between its epochs.

    Refreshes of the weights, validation and checkpoints come once an epoch or less often, so they are
    counted apart. Only the newer half of what was seen counts: the first refreshes are not like the later
    ones, and other programs come and go.

    Args:
        steps_per_epoch: of the run.
        clock: seconds now.
    """

    def __init__(self, steps_per_epoch: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._length, self._clock = steps_per_epoch, clock
        self._before: float | None = None  # when the last step ended
        # Seconds to a step within an epoch, and to its first.
        self._inside, self._across = _Recent(BLOCK, LONGEST), _Recent()

    def __call__(self, step: int, steps: int) -> float | None:
        """Seconds left after ``step`` of ``steps``; None as long as nobody can tell."""
        now = self._clock()
        # What comes before the first step of a session, such as compiling, comes once.
        if self._before is not None:
            (self._across if step % self._length == 1 % self._length else self._inside).add(
                now - self._before
            )
        self._before = now
        inside, across = self._inside.mean, self._across.mean
        inside = across if inside is None else inside
        across = inside if across is None else across
        if inside is None or across is None:
            return None
        starts = self._starts(step, steps)
        return starts * across + (steps - step - starts) * inside

    def words(self, step: int, steps: int) -> str:
        """As `__call__`; before the first end of an epoch, what happens there is yet to come."""
        seconds = self(step, steps)
        unknown = seconds is not None and self._across.mean is None and self._starts(step, steps) > 0
        return f"{'at least ' if unknown else ''}{in_words(seconds)}"

    def _starts(self, step: int, steps: int) -> int:
        """Epochs that have not begun."""
        return steps // self._length - -(-step // self._length)


class _Recent:
    """The mean of the newer half of numbers that come one by one.

    Args:
        block: so many numbers are averaged first.
        longest: a block counts at most as so many times the median one, because of a machine that slept.
    """

    def __init__(self, block: int = 1, longest: float = np.inf) -> None:
        self._block, self._longest = block, longest
        self._blocks: list[float] = []
        self._sum, self._count = 0.0, 0  # of the block that is not full
        self._of_blocks: float | None = None

    def add(self, value: float) -> None:
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count == self._block:
            self._blocks.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0
            newer = np.array(self._blocks[len(self._blocks) // 2 :])
            self._of_blocks = float(np.minimum(newer, self._longest * np.median(newer)).mean())

    @property
    def mean(self) -> float | None:
        """None before the first number."""
        if self._of_blocks is None and self._count:
            return self._sum / self._count
        return self._of_blocks


def _announcement(config: TrainConfig) -> str:
    """What is about to be trained on what, before the seconds that loading takes."""
    data = config.data
    names = [f"source {', '.join(path.name for path in data.source)}"] if data.source else []
    names += [f"target {data.target.name}"] if data.target is not None else []
    return f"method {config.method}, preset {config.preset}, device {config.run.device}: {'; '.join(names)}"


@contextmanager
def progress(config: TrainConfig) -> Iterator[Callable[[StepEvent], None]]:
    """A bar with the loss and the time left on a terminal, ten plain lines a run elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    left = TimeLeft(config.optimization.steps_per_epoch)
    if not console.is_terminal:
        every = max(1, config.optimization.steps // 10)

        def report(event: StepEvent) -> None:
            remaining = left.words(event.step, event.steps)
            if event.step % every == 0:
                soon = "" if event.step == event.steps else f", {remaining} left"
                print(f"step {event.step} of {event.steps}, loss {event.loss():.4f}{soon}", flush=True)

        with shown_messages(lambda message: print(message, flush=True)), listening(PlainLines(sys.stdout)):
            yield report
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with (
        Progress(*columns, refresh_per_second=2, console=console) as bar,
        shown_messages(lambda message: console.print(message, markup=False, highlight=False)),
    ):
        console.print(_announcement(config), markup=False, highlight=False)
        task = bar.add_task("loading torch", total=None, state="", left="")
        loss = ""

        def prepare(what: str, done: int, total: int) -> None:
            # What is all done but not followed by something else is still being worked on.
            share = f" {100 * done // total}%" if done < total else ""
            bar.update(task, description=f"{what}{share}")

        def show(event: StepEvent) -> None:
            nonlocal loss
            soon = left.words(event.step, event.steps)
            if not loss or event.step % config.run.log_every == 0:
                loss = f"{event.loss():.4f}"
            state = f"{event.step}/{event.steps} loss {loss}"
            bar.update(task, description=config.method, completed=event.step, total=event.steps)
            bar.update(task, state=state, left="" if soon == in_words(None) else f"{soon} left")

        with listening(prepare):
            yield show
