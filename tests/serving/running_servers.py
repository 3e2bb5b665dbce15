"""A real server in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beacon.policy import load_policy
from beacon.serving import PolicyServer, ServeOptions


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[PolicyServer]:
    """Serve a policy on a free port until the block ends; what goes wrong in the server fails the test."""
    server = PolicyServer(load_policy(folder), ServeOptions(**{"port": 0, "threads": 1, **options}))
    loop, stop, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(server.run(stop, ready=lambda _: ready.set()))
        except BaseException as error:
            failure.append(error)
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    if failure:
        thread.join()
        raise failure[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    if failure:
        raise failure[0]


def url(server: PolicyServer) -> str:
    """Where it listens."""
    return f"ws://127.0.0.1:{server.port}"
