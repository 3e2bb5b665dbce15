"""Who may speak to the server: keys, pages in browsers, and names that lead elsewhere."""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
import stat
import warnings
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from beacon.errors import UserError
from beacon.serving.options import ServeOptions

SHORTEST_KEY = 16
LARGEST_KEY = 4_096
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::\d{1,5})?")


class Headers(Protocol):
    """Headers of a request; several of one name are all found."""

    def get_all(self, key: str) -> list[str]:
        """All values of a header."""
        ...


def read_key(file: Path) -> str:
    """The key in a file: one line of printable characters without spaces."""
    try:
        if file.stat().st_size > LARGEST_KEY:
            raise UserError(f"--key-file {file}: {file.stat().st_size} bytes; a key is one line of text")
        key = file.read_text(encoding="ascii").strip()
        mode = file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--key-file {file}: not readable ({getattr(error, 'strerror', None) or error})"
        ) from None
    if len(key) < SHORTEST_KEY or not all(33 <= ord(letter) <= 126 for letter in key):
        raise UserError(
            f"--key-file {file}: a key has at least {SHORTEST_KEY} printable characters and no spaces; "
            "make one with: openssl rand -hex 32"
        )
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        warnings.warn(f"{file}: others on this machine can read the key; say chmod 600 {file}", stacklevel=2)
    return key


class Gate:
    """Decides on a request before it becomes a connection."""

    def __init__(self, options: ServeOptions) -> None:
        """Prepare for one server.

        Args:
            options: the key, and the address that is listened on.
        """
        self._key = None if options.key is None else options.key.encode()
        name = socket.gethostname().lower()
        self._hosts = {"localhost", options.host.lower(), name, f"{name}.local"}

    def refusal(self, headers: Headers, *, needs_key: bool = True) -> tuple[HTTPStatus, str] | None:
        """Why a request is refused, or None.

        Without a key, a request must name this machine: a page whose name was made to lead here (DNS
        rebinding) is told from a robot's program by the name in ``Host``. Pages in browsers send ``Origin``;
        programs of robots do not.
        """
        if headers.get_all("Origin"):
            return HTTPStatus.FORBIDDEN, "pages in browsers are not served"
        if self._key is None:
            if not self._names_this_machine(headers.get_all("Host")):
                return HTTPStatus.FORBIDDEN, "the Host header names another machine"
        elif needs_key and not self._has_key(headers.get_all("Authorization")):
            return HTTPStatus.UNAUTHORIZED, "send the key as 'Authorization: Api-Key KEY'"
        return None

    def _has_key(self, values: list[str]) -> bool:
        # One comparison whatever was sent, in a time that does not depend on where the first difference is.
        sent = values[0] if len(values) == 1 else ""
        scheme, _, given = sent.partition(" ")
        matches = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._key or b"")
        return matches and scheme.lower() == "api-key"

    def _names_this_machine(self, values: list[str]) -> bool:
        match = _HOST.fullmatch(values[0].strip()) if len(values) == 1 else None
        if match is None:
            return False
        name = match[1].lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
