"""What decides how a policy is served, and how much a client may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from beacon.errors import UserError

LARGEST_SEED = 2**63 - 1  # torch takes a signed number


@dataclass(frozen=True)
class Limits:
    """How much one client may ask for. What is beyond is refused with one line."""

    message_bytes: int = 32 * 2**20  # of one message; a larger one ends the connection (code 1009)
    depth: int = 8  # of nested lists and maps in a message
    items: int = 10_000  # values in a message, an array counting as six
    text_bytes: int = 2**16  # of one text in a message, such as a prompt
    image_side: int = 2_048  # pixels; images of another size than the policy's are resized
    history: int = 64  # steps of a history that a client sends
    rows: int = 256  # histories of a batch that a client sends
    connections: int = 2_000  # open at the same time
    requests_per_second: float = 500.0  # of one connection, after a burst of as many
    batch: int = 64  # requests of several clients that are computed together; 1: each alone
    send_seconds: float = 10.0  # that a client may take to read an answer
    stop_seconds: float = 30.0  # that requests in flight may take after SIGTERM

    def __post_init__(self) -> None:
        for name in ("message_bytes", "depth", "items", "text_bytes", "image_side", "history", "rows"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} {getattr(self, name)}: must be at least 1")
        for name in ("connections", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} {getattr(self, name)}: must be at least 1")
        for name in ("requests_per_second", "send_seconds", "stop_seconds"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} {getattr(self, name)}: must be above 0")


@dataclass(frozen=True)
class ServeOptions:
    """Where and for whom a policy is served."""

    host: str = "127.0.0.1"  # address to listen on
    port: int = 8000  # 0: any free one
    key: str | None = field(default=None, repr=False)  # what clients must send; None: nothing
    insecure: bool = False  # listen on other addresses than loopback without a key
    seed: int = 0  # of the random numbers of every connection, until it sends one of its own
    threads: int | None = None  # for computing; None: measured at start
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UserError(f"--port {self.port}: must be from 0 to 65535")
        if self.threads is not None and not 1 <= self.threads <= 1_024:
            raise UserError(f"--threads {self.threads}: must be from 1 to 1024")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise UserError(f"--seed {self.seed}: must be from 0 to {LARGEST_SEED}")
        if not self.host or any(letter.isspace() or not letter.isprintable() for letter in self.host):
            raise UserError(f"--host {self.host!r}: not an address")
        if self.key is None and not self.insecure and not is_loopback(self.host):
            raise UserError(
                f"--host {self.host}: others could move your robot; say --key-file FILE, "
                "or --insecure on a network that you trust"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
