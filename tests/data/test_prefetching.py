"""Items made ahead in a thread are the same, in order, with their errors, and no thread is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from beacon.data.prefetching import work_ahead


def test_order_errors_and_early_ends() -> None:
    assert list(work_ahead(iter(range(100)))) == list(range(100))
    assert list(work_ahead(iter(()))) == []

    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ZeroDivisionError("third")

    seen = []
    with pytest.raises(ZeroDivisionError, match="third"):
        for item in work_ahead(failing()):
            seen.append(item)
    assert seen == [1, 2]

    def endless() -> Iterator[int]:
        while True:
            yield 0

    before = threading.active_count()
    for _ in range(5):
        items = work_ahead(endless())
        next(items)
        items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
