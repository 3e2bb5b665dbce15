"""``beacon demo``: the whole story on one task, on any laptop, in minutes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.demo import DemoPlan, DemoResult

Advance = Callable[[str, float, float], None]

ENOUGH = 0.01  # of the work, to tell the time left by
DESCRIPTION = """Compare three methods in simulation and write a report: OUT/report.html.

The task is to put one cube onto another on a wooden table. There are 10 demonstrations of it, and 150 on
another table. 60 of these are corrupted: their actions are delayed or mirrored, and no method is told which.
Target-only, co-training and BEACON train for the same number of steps and are evaluated from the same initial
states.

It takes five to eight minutes on two cores, without a GPU and without a network. Repeat the command to
continue after an interruption."""


@dataclass(frozen=True)
class DemoOptions:
    """What the command line takes."""

    # Folder for demonstrations, runs and the report.
    out: Path = Path("runs/demo")
    # Parallel processes. Three use two cores better than two do, because there are three methods.
    workers: int = 3
    # Of the demonstrations, the policies' parameters and all other random numbers.
    seed: int = 0
    # A tiny version of about a minute, to see that everything works; its numbers mean nothing.
    quick: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError(f"--workers {self.workers}: must be at least 1")
        if self.seed < 0:
            raise UserError(f"--seed {self.seed}: must be at least 0")


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: DemoOptions = parsing.parse(
            DemoOptions, arguments, prog="beacon demo", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.demo import DemoPlan, run_demo

    plan = DemoPlan.quick(options.seed) if options.quick else DemoPlan(seed=options.seed)
    try:
        with _progress() as advance:
            result = run_demo(plan, options.out, workers=options.workers, advance=advance)
    except KeyboardInterrupt:
        print("beacon: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    _print(result, plan)
    return 0


@contextmanager
def _progress() -> Iterator[Advance]:
    """A bar with the time left on a terminal, a line a minute elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    clock = _Clock()
    if not console.is_terminal:
        said = [0.0]

        def line(what: str, done: float, total: float) -> None:
            if clock.at(done) - said[0] > 60:
                said[0] = clock.at(done)
                print(f"{what} ({done / total:.0%}, {clock.left(done, total)})", flush=True)

        yield line
        return
    columns = (
        TextColumn("{task.description}", justify="left"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=2) as bar:
        task = bar.add_task("starting", total=1.0, left="")

        def show(what: str, done: float, total: float) -> None:
            clock.at(done)
            bar.update(task, description=what, completed=done, total=total, left=clock.left(done, total))

        yield show


class _Clock:
    """Time left, by the speed since this call began: an earlier one's work is not this one's speed."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: float | None = None

    def at(self, done: float) -> float:
        """Seconds since the beginning."""
        self._first = done if self._first is None else self._first
        return time.monotonic() - self._began

    def left(self, done: float, total: float) -> str:
        """In words."""
        passed, gained = self.at(done), done - (self._first or 0.0)
        if passed < 5 or gained < ENOUGH * total:
            return "time left: not known yet"
        seconds = passed * (total - done) / gained
        return f"about {max(1, round(seconds / 60))} min left"


def _print(result: DemoResult, plan: DemoPlan) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{plan.task}, domain {plan.target_domain}, {plan.episodes} initial states that all share"
    table = Table(title=title)
    for heading in ("method", "successes", "rate", "95% interval"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for method, successes, episodes, low, high in result.table:
        table.add_row(method, f"{successes}", f"{successes / episodes:.0%}", f"{low:.0%} to {high:.0%}")
    console = Console()
    console.print(table)
    console.print(result.verdict)
    if result.corruption_auc is not None:
        share = f"{result.corruption_auc:.0%} of pairs (50% is chance)"
        console.print(f"BEACON's weights put a sound demonstration above a corrupted one in {share}.")
    print(f"the report: {result.report}")
