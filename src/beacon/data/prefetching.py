"""Work ahead in a thread: pictures are read while those before are resized and written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any, TypeVar

Item = TypeVar("Item")
POLL = 0.05  # seconds


@dataclass(frozen=True)
class _End:
    error: BaseException | None


def work_ahead(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """The same items; up to ``depth`` of them are made before they are asked for.

    An error of the iterator is raised where its item would have come. Whoever stops early ends the thread.

    Args:
        items: run in a thread of its own.
        depth: how many may wait.
    """
    waiting: Queue[Any] = Queue(depth)
    stop = threading.Event()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=POLL)
                return
            except Full:
                continue

    def work() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    break
        except BaseException as caught:
            error = caught
        put(_End(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stop.set()
        while thread.is_alive():
            try:
                waiting.get_nowait()
            except Empty:
                thread.join(POLL)
