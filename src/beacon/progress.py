"""How far the work is: told by those who do it, shown by those who asked; by default nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much

_LISTENER: ContextVar[Listener | None] = ContextVar("listener to progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, ``listener`` hears of all progress of this thread.

    Args:
        listener: called with what is being done, how much of it is done, and of how much.
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(what: str, done: int, total: int) -> None:
    """So much of something is done.

    Args:
        what: a few words, such as "reading sim.hdf5".
        done: how much of it.
        total: of how much.
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


def each(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items; after each of them it is told how many are done.

    Args:
        items: what is worked on, one by one.
        what: what is done with them, in a few words.
    """
    tell(what, 0, len(items))
    for done, item in enumerate(items, 1):
        yield item
        tell(what, done, len(items))
