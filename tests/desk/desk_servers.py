"""A desk that is served by a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from beacon.desk.annotations import Sources, open_collection
from beacon.desk.journal import Journal
from beacon.desk.server import Desk, DeskServer

DEMOS = 24  # of the source
OpenDesk = Callable[..., DeskServer]


@contextmanager
def serving(sources: Sources, decisions: Path, who: str = "anna") -> Iterator[DeskServer]:
    collection, annotations = open_collection(sources)
    with (
        closing(collection),
        DeskServer(Desk(collection, annotations, Journal(decisions, collection, who))) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
