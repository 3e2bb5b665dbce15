"""Locks that one process holds at a time; a process that dies lets go by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from beacon.files import writing

try:
    import fcntl
except ImportError:  # Windows: run one command at a time on a folder
    fcntl = None  # type: ignore[assignment]

POLL = 0.5  # seconds


@contextmanager
def trying(path: Path) -> Iterator[bool]:
    """Take the lock if it is free; says whether it was."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a")
    with lock:
        free = True
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                free = False
        yield free


@contextmanager
def waiting(path: Path, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
    """Wait for the lock; ``meanwhile`` is called now and then until it is free."""
    while True:
        with trying(path) as free:
            if free:
                yield
                return
        if meanwhile is not None:
            meanwhile()
        time.sleep(POLL)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock now."""
    if not path.exists():
        return False
    with trying(path) as free:
        return not free
