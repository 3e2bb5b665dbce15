"""What commands say: one line for each message of their parts, and JSON where a program reads it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from beacon.plain import finite, to_plain


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


def print_json(value: Any) -> None:
    """Print dataclasses, mappings and lists as one line of JSON; what is not finite becomes null.

    Args:
        value: what `beacon.plain.to_plain` takes.
    """
    print(json.dumps(finite(to_plain(value)), allow_nan=False))
