"""Doing the cells of a suite: several side by side, none twice, in any number of commands and machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from beacon.errors import RunError
from beacon.processes import POLL, Event, Workers
from beacon.suites.cell import Cell
from beacon.suites.locks import is_held
from beacon.suites.perform import BUSY, Assignment, perform
from beacon.suites.results import Folders

RETRY = 5.0  # seconds until a cell that another command works on is tried again


@dataclass(frozen=True)
class Notice:
    """Something to tell the user about a cell."""

    cell: Cell
    kind: str  # started, progress, done, failed, busy
    stage: str = ""
    done: int = 0
    total: int = 0
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a command."""

    done: int  # now, of the cells asked for
    failed: Mapping[str, str]  # key of the cell -> why
    blocked: int  # that wait for a cell that failed


def run_cells(
    cells: Sequence[Cell],
    folders: Folders,
    workers: Workers,
    *,
    device: str = "auto",
    threads: int | None = 1,
    notify: Callable[[Notice], None] | None = None,
) -> Outcome:
    """Do all cells that are not done. A failure of one leaves the others alone."""
    folders, say = folders.resolved(), notify or (lambda _: None)
    by_key = {cell.key: cell for cell in cells}
    failed: dict[str, str] = {}
    not_before: dict[str, float] = {}  # of cells that another command works on
    while True:
        left = [c for c in cells if c.key not in failed and not folders.is_done(c)]
        running = set(workers.names)
        # Cells that share a run are done one after the other.
        taken = {by_key[key].training_key for key in running}
        now = time.monotonic()
        ready = [
            c
            for c in left
            if c.training_key not in taken
            and now >= not_before.get(c.key, 0.0)
            and (c.match is None or folders.is_done(c.match))
        ]
        if workers.free and ready:
            cell = ready[0]
            if is_held(folders.lock(cell)):
                not_before[cell.key] = now + RETRY
                say(Notice(cell, "busy"))
                continue
            say(Notice(cell, "started"))
            workers.start(cell.key, perform, Assignment(cell, folders, device, threads))
            continue
        waits = any(c.match is None or c.match.key not in failed for c in left)
        if not running and not waits:
            break
        for event in workers.events():
            notice = _notice(by_key[event.name], event)
            if notice.kind == "failed":
                failed[event.name] = notice.text
            elif notice.kind == "busy":
                not_before[event.name] = time.monotonic() + RETRY
            say(notice)
        time.sleep(POLL)
    done = sum(folders.is_done(cell) for cell in cells)
    return Outcome(done, failed, len(cells) - done - len(failed))


def _notice(cell: Cell, event: Event) -> Notice:
    if event.kind == "progress":
        stage, done, total = event.value
        return Notice(cell, "progress", stage, done, total)
    if event.kind == "failed":
        return Notice(cell, "failed", text=str(event.value[1]))
    return Notice(cell, "busy" if event.value == BUSY else "done")


def check(outcome: Outcome) -> None:
    """Complain if some cells failed."""
    if outcome.failed:
        key, why = next(iter(outcome.failed.items()))
        waiting = f", {outcome.blocked} that wait for them are left" if outcome.blocked else ""
        raise RunError(
            f"{len(outcome.failed)} of the cells failed{waiting}; the first is {key}: {why}; "
            "the same command tries them again"
        )
