"""A policy for robots: server and clients of openpi's websocket protocol.

Loads on first use: websockets and msgpack are the extra ``serve``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.serving.async_client import AsyncClient
    from beacon.serving.client import Client
    from beacon.serving.client_state import ServerUnavailable
    from beacon.serving.options import Limits, ServeOptions
    from beacon.serving.remote import RemotePolicy
    from beacon.serving.server import PolicyServer

__all__ = [
    "AsyncClient",
    "Client",
    "Limits",
    "PolicyServer",
    "RemotePolicy",
    "ServeOptions",
    "ServerUnavailable",
]

_HOMES = {
    "AsyncClient": "async_client",
    "Client": "client",
    "Limits": "options",
    "PolicyServer": "server",
    "RemotePolicy": "remote",
    "ServeOptions": "options",
    "ServerUnavailable": "client_state",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.serving.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.serving' has no attribute {name!r}")
