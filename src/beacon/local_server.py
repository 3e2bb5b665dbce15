"""Pages for a browser on this machine: a server that listens on the loopback address alone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from beacon.errors import UserError

ADDRESS = "127.0.0.1"
IDLE = 15.0  # seconds after which a connection that asks for nothing is closed


def check_port(option: str, port: int) -> None:
    """Refuse a port at which nothing can be served.

    Args:
        option: that says the port, for the message.
        port: 0 is any that is free.
    """
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


class LocalServer(ThreadingHTTPServer):
    """Serves pages to this machine only.

    Args:
        handler: answers requests.
        port: 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, handler: type[LocalHandler], port: int) -> None:
        check_port("--port", port)
        super().__init__((ADDRESS, port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of a request is nobody's news; anything else is one line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"beacon: warning: a request failed ({type(error).__name__})", file=sys.stderr)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Where to look."""
        return f"http://{ADDRESS}:{self.port}/"


class LocalHandler(BaseHTTPRequestHandler):
    """What all pages of this machine have in common."""

    timeout = IDLE

    @property
    def names_this_machine(self) -> bool:
        """Whether the request was meant for here: a name that was made to point here must not read data."""
        return self.headers.get("Host", "").rsplit(":", 1)[0] in (ADDRESS, "localhost")

    def answer(
        self,
        content: bytes,
        content_type: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole answer.

        Args:
            content: of the answer.
            content_type: of the content.
            status: of HTTP.
            headers: more of them; nothing is kept by a browser unless they say so.
        """
        with suppress(OSError):  # the reader went on to another page, or reads too slowly
            self.send_response(status)
            for name, value in ({"Cache-Control": "no-store"} | dict(headers or {})).items():
                self.send_header(name, value)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""
