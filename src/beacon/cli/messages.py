"""What the parts of a command say while it runs, such as a ratio that was chosen: one line each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextmanager
def shown_messages(show: Callable[[str], None]) -> Iterator[None]:
    """Pass every message of beacon's loggers, from INFO on, to ``show``; leave logging as it was."""
    logger, handler = logging.getLogger("beacon"), _Lines(show)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
