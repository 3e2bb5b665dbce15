"""The page on this machine, kept up to date while runs go on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from beacon.errors import RunError, UserError
from beacon.report.build import ReportBuilder
from beacon.report.embedding_map import Projection
from beacon.report.markup import join, tag
from beacon.report.run_record import first_line
from beacon.runs import Run

ADDRESS = "127.0.0.1"
PORT = 8765
SHORTEST = 5.0  # seconds between two pages: training must not wait for its report
IDLE = 15.0  # seconds after which a connection that asks for nothing is closed


class LivePage:
    """The newest page of some runs, made again when their folders have changed."""

    def __init__(self, paths: list[Path], *, projection: Projection = "umap") -> None:
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


def check_port(option: str, port: int) -> None:
    """Refuse a port at which nothing can be served."""
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            listener.bind((ADDRESS, port))
    except OverflowError:
        raise UserError(f"{option} {port}: must be from 0 to 65535") from None
    except OSError as error:
        raise UserError(
            f"{option} {port}: cannot serve there ({error.strerror}); choose another, or 0 for a free one"
        ) from None


class LiveServer(ThreadingHTTPServer):
    """Serves one page to this machine only."""

    daemon_threads = True

    def __init__(self, page: LivePage, port: int = PORT) -> None:
        self.page = page
        check_port("--port", port)
        super().__init__((ADDRESS, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away in the middle is nobody's news; anything else is one line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"beacon: warning: a request failed ({type(error).__name__})", file=sys.stderr)

    @property
    def address(self) -> str:
        """Where to look."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = IDLE

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host not in (ADDRESS, "localhost"):  # a name that was made to point here must not read runs
            self.send_error(403)
        elif self.path == "/":
            self._answer(self.server.page.page(), "text/html; charset=utf-8")
        elif self.path == "/version":
            self._answer(self.server.page.version().encode(), "text/plain")
        else:
            self.send_error(404)

    def _answer(self, content: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # the reader went on to a newer page, or reads too slowly
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""


def serve(paths: list[Path], port: int = PORT, *, projection: Projection = "umap") -> int:
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
