"""The page on this machine, kept up to date while runs go on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beacon.errors import RunError, UserError
from beacon.local_server import LocalHandler, LocalServer
from beacon.report.build import ReportBuilder
from beacon.report.embedding_map import Projection
from beacon.report.markup import join, tag
from beacon.report.run_record import first_line
from beacon.runs import Run

PORT = 8765
SHORTEST = 5.0  # seconds between two pages: training must not wait for its report


class LivePage:
    """The newest page of some runs, made again when their folders have changed."""

    def __init__(self, paths: list[Path], *, projection: Projection = "pca") -> None:
        self._paths = paths
        self._builder = ReportBuilder(paths, projection=projection, live=True)
        self._lock = threading.Lock()
        self._made = ("", 0.0, b"")  # version, when, page

    def version(self) -> str:
        """Changes when there is something new to see, but not more often than `SHORTEST`."""
        version, when, _ = self._made
        if version and time.monotonic() - when < SHORTEST:
            return version
        return self._fingerprint()

    def page(self) -> bytes:
        """The page, of now."""
        with self._lock:
            wanted = self.version()
            if wanted != self._made[0]:
                self._made = (wanted, time.monotonic(), self._build())
            return self._made[2]

    def _build(self) -> bytes:
        try:
            return self._builder.build().html.encode()
        except (UserError, RunError) as error:  # a run that has not begun yet
            return _message(f"Nothing to show yet: {error}")
        except Exception as error:  # a file that is damaged in a way nobody thought of: training goes on
            return _message(f"The page could not be made: {type(error).__name__}: {first_line(error)}")

    def _fingerprint(self) -> str:
        parts = []
        for path in self._paths:
            for file in Run(path).watched_files:
                try:
                    stat = file.stat()
                    parts.append(f"{file}:{stat.st_mtime_ns}:{stat.st_size}")
                except OSError:
                    parts.append(f"{file}:absent")
        return str(hash(tuple(parts)))


def _message(text: str) -> bytes:
    """A page of one line that asks again."""
    return f'<!DOCTYPE html><meta http-equiv="refresh" content="3">{join(tag("p", text))}'.encode()


class LiveServer(LocalServer):
    """Serves one page to this machine only."""

    def __init__(self, page: LivePage, port: int = PORT) -> None:
        self.page = page
        super().__init__(_Handler, port)


class _Handler(LocalHandler):
    server: LiveServer

    def do_GET(self) -> None:
        if not self.names_this_machine:
            self.send_error(403)
        elif self.path == "/":
            self.answer(self.server.page.page(), "text/html; charset=utf-8")
        elif self.path == "/version":
            self.answer(self.server.page.version().encode(), "text/plain")
        else:
            self.send_error(404)


def serve(paths: list[Path], port: int = PORT, *, projection: Projection = "pca") -> int:
    """Serve the page until interrupted, or until the process that asked for it is gone."""
    with LiveServer(LivePage(paths, projection=projection), port) as server:
        print(f"{server.address} shows {', '.join(map(str, paths))}; stop with Ctrl-C", flush=True)
        _follow_parent(server)
        try:
            server.serve_forever(poll_interval=0.5)
        except KeyboardInterrupt:
            print()
    return 0


def _follow_parent(server: LiveServer) -> None:
    """End with the parent where `watching` asked for it."""
    wanted = os.environ.get("BEACON_WATCHED_BY")
    if wanted is None:
        return

    def look() -> None:
        while os.getppid() == int(wanted):
            time.sleep(1.0)
        server.shutdown()

    threading.Thread(target=look, daemon=True).start()


@contextmanager
def watching(run: Path, port: int = PORT) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the run's page from a process of its own, of low priority, while the block runs."""
    code = "import sys; from beacon.cli.report import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(run), "--live", "--port", str(port)],
        env={**os.environ, "BEACON_WATCHED_BY": str(os.getpid()), "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.nice(10),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
