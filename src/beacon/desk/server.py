"""The server of the desk: for this machine alone, behind a random key, and for its own page alone."""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Callable
from importlib import resources
from typing import Any

from beacon.desk.annotations import Annotations
from beacon.desk.collection import Collection
from beacon.desk.details import describe_collection, describe_demo
from beacon.desk.journal import Journal
from beacon.desk.neighbors import TargetNeighbors
from beacon.desk.pictures import MOST_FRAMES, Pictures
from beacon.errors import RunError, UserError
from beacon.local_server import ADDRESS, LocalHandler, LocalServer

LARGEST_BODY = 32_768  # bytes of a request
JSON, JPEG, BYTES = "application/json", "image/jpeg", "application/octet-stream"
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        name: (name, "text/javascript; charset=utf-8")
        for name in ("desk.js", "grid.js", "viewer.js", "curves.js", "frames.js", "talk.js")
    },
}
# Nothing from elsewhere, and no script or style but the files above: a name that is markup stays text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",  # the address has the key
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
DECISIONS = ("keep", "drop", "repair", "note")


class _NotThereError(Exception):
    """Nothing is served under that name."""


class Desk:
    """Everything that the page can ask for.

    Args:
        collection: the demonstrations.
        annotations: what an audit and a run say of them.
        journal: the decisions.
    """

    def __init__(self, collection: Collection, annotations: Annotations, journal: Journal) -> None:
        self.collection, self.annotations, self.journal = collection, annotations, journal
        self.pictures = Pictures(collection)
        self.neighbors = TargetNeighbors(collection)

    def overview(self) -> dict[str, Any]:
        """The grid."""
        overview = describe_collection(self.collection, self.annotations)
        return overview | {"file": str(self.journal.file)} | self.decisions()

    def demo(self, number: int) -> dict[str, Any]:
        """One demonstration."""
        return describe_demo(number, self.collection, self.annotations, self.neighbors)

    def decisions(self) -> dict[str, Any]:
        """What is decided now."""
        version, decided = self.journal.state()
        return {"version": version, "decided": decided}

    def act(self, request: Any) -> dict[str, Any]:
        """Decide, or take a decision back.

        Args:
            request: what the page sent.
        """
        match request:
            case {"demo": int(demo), "decision": str(decision), "note": str(note)} if decision in DECISIONS:
                identity = self.journal.decide(self.check(demo), decision, note)  # type: ignore[arg-type]
                return {"id": identity} | self.decisions()
            case {"demo": int(demo), "undo": str(identity)} if re.fullmatch("[0-9a-f]{1,32}", identity):
                self.journal.undo(self.check(demo), identity)
                return self.decisions()
        raise UserError("not a decision")

    def check(self, demo: int) -> int:
        """The number itself, if there is such a demonstration."""
        if not 0 <= demo < len(self.collection.demos):
            raise UserError(f"there is no demonstration {demo}")
        return demo


class DeskServer(LocalServer):
    """Serves the desk under an address that only its user knows.

    Args:
        desk: what is served.
        port: 0 takes a free one.
    """

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self.desk, self.key = desk, secrets.token_urlsafe(24)
        super().__init__(_Handler, port)

    @property
    def address(self) -> str:
        """Where to look, with the key."""
        return f"{super().address}{self.key}/"


class _Handler(LocalHandler):
    server: DeskServer
    protocol_version = "HTTP/1.1"  # connections are used again: a film is many requests

    def do_GET(self) -> None:
        route = self._route()
        if route is not None:
            self._answer_safely(lambda: self._get(route))

    def do_POST(self) -> None:
        route = self._route(changes=True)
        if route is None:
            return
        content = self._body()
        if content is not None:
            self._answer_safely(lambda: self._post(route, content))

    def _route(self, *, changes: bool = False) -> str | None:
        """What is asked for, behind the key; a request that is refused was answered."""
        key, _, route = self.path.removeprefix("/").partition("?")[0].partition("/")
        reason = self._refusal(key, changes)
        if reason is None:
            return route
        self._refuse(reason)
        return None

    def _refusal(self, key: str, changes: bool) -> str | None:
        """Why a request is refused, or None."""
        hosts = [f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")]
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in hosts:
            return "the Host header names another machine"
        if origin not in (f"http://{host}", *(() if changes else (None,))):
            return "pages of other origins are not served"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "pages of other sites are not served"
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self.server.key.encode()):
            return "the key in the address is wrong; take the address that beacon desk printed"
        return None

    def _refuse(self, reason: str, status: int = 403) -> None:
        self.close_connection = True  # what else was sent is not looked at
        self.answer(reason.encode(), "text/plain", status=status, headers={**HEADERS, "Connection": "close"})

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            self._refuse("the request is too large", 413)
            return None
        if self.headers.get("Content-Type") != JSON:
            self._refuse("not JSON", 415)
            return None
        return bytes(self.rfile.read(int(length)))

    def _answer_safely(self, make: Callable[[], tuple[bytes, str]]) -> None:
        """The answer, or what is wrong in one line: the page shows it, and the desk goes on."""
        try:
            content, content_type = make()
            self.answer(content, content_type, headers=HEADERS)
        except _NotThereError:
            self._complain("there is no such thing", 404)
        except (UserError, RunError, OSError) as error:
            self._complain(str(error) or type(error).__name__, 422)
        except Exception as error:  # a file that is damaged in a way nobody thought of
            self._complain(f"cannot be shown: {type(error).__name__}: {error}", 500)

    def _complain(self, text: str, status: int) -> None:
        line = text.splitlines()[0] if text else ""
        self.answer(json.dumps({"error": line}).encode(), JSON, status=status, headers=HEADERS)

    def _get(self, route: str) -> tuple[bytes, str]:
        desk = self.server.desk
        if route in FILES:
            name, content_type = FILES[route]
            return (resources.files("beacon.desk") / "page" / name).read_bytes(), content_type
        if route == "overview":
            return _json(desk.overview()), JSON
        if route == "decisions":
            return _json(desk.decisions()), JSON
        if match := re.fullmatch(r"demos/([0-9]{1,9})", route):
            return _json(desk.demo(desk.check(int(match[1])))), JSON
        if match := re.fullmatch(r"thumbnails/([0-9]{1,9})", route):
            return desk.pictures.thumbnail(desk.check(int(match[1]))), JPEG
        if match := re.fullmatch(r"frames/([0-9]{1,9})/([0-9]{1,3})/([0-9]{1,9})/([0-9]{1,2})", route):
            demo, camera, start, count = map(int, match.groups())
            if not 0 < count <= MOST_FRAMES:
                raise _NotThereError
            return desk.pictures.frames(desk.check(demo), camera, start, count), BYTES
        raise _NotThereError

    def _post(self, route: str, content: bytes) -> tuple[bytes, str]:
        if route != "decisions":
            raise _NotThereError
        try:
            request = json.loads(content)
        except (ValueError, RecursionError):
            raise UserError("not JSON") from None
        return _json(self.server.desk.act(request)), JSON


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def serve(server: DeskServer) -> None:
    """Serve until interrupted.

    Args:
        server: the desk's.
    """
    try:
        server.serve_forever(poll_interval=0.5)
    except KeyboardInterrupt:
        print()
