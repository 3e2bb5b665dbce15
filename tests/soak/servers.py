"""Hostile names in pages, and hostile clients of the live page and of `beacon serve`."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress

import msgpack
import numpy as np
import websockets.sync.client
from browser import Browser
from running_servers import serving, url
from serving_inputs import NORMALIZATION, SPEC, TINY, observation
from websockets.exceptions import WebSocketException

from beacon.policy import DiffusionPolicy, save_policy
from beacon.report.live import LivePage, LiveServer
from beacon.serving import Client, Limits
from beacon.serving.wire import pack
from soak.campaign import Attempt, Campaign, Randomness
from soak.hostile_pages import train_named, try_page
from soak.hostile_values import TEXTS, hostile_value
from soak.mutations import mutate_bytes

PAGE_EVERY, CROWD_EVERY = 100, 250  # attempts; a page takes seconds, and so does a crowd
CROWD = 1_000  # connections
HELD = 40  # connections that are left open and say nothing
PATIENCE = 60.0  # seconds for an answer
LINES = (b"GET / HTTP/1.1", b"GET /version HTTP/1.1", b"GET /healthz HTTP/1.1", b"GET /metrics HTTP/1.1")
STRANGE_LINES = (
    *(b"POST / HTTP/1.1", b"GET /../../etc/passwd HTTP/1.1", b"GET //etc/passwd HTTP/1.1", b"GET / HTTP/9.9"),
    *(b"GET " + b"/a" * 40_000 + b" HTTP/1.1", b"\x16\x03\x01\x02\x00\x01", b"GET /%00 HTTP/1.1"),
    *(b"PRI * HTTP/2.0",),
    *(b"GET http://evil.example/ HTTP/1.1", b"CONNECT evil.example:443 HTTP/1.1", b"", b"\0" * 2000),
    *(b"OPTIONS * HTTP/1.1",),
)  # fmt: skip
HOSTS = (
    *(b"evil.example", b"evil.example:80", b"127.0.0.1.evil.example", b"localhost.evil.example", b""),
    *(b"[::1", b"\xff"),
    *(b"localhost@evil.example", b"evil.example#127.0.0.1", b"a" * 10_000, b"0x7f000001.evil.example"),
    *(b"127.0.0.1, evil.example",),
)  # fmt: skip


class Servers(Campaign):
    """Each attempt is one hostile request, page or crowd; after it the servers must answer others."""

    name = "servers"
    what = (
        "hostile names in every field of a dataset through the report (headless Chromium: no script "
        "runs), the live page and `beacon serve` under malformed and slow requests, hostile messages,"
        f" names of other hosts and {CROWD:,} connections: others are still answered"
    )
    unit = "requests and pages"
    share = 0.1
    sample = 30
    planned = 3_000

    def prepare(self) -> None:
        """Start both servers, and a browser."""
        self._stack = ExitStack()
        run = train_named(self.folder / "run", ["sim", "real"])
        live = LiveServer(LivePage([run], projection="none"), 0)
        self._stack.callback(live.server_close)
        self._stack.callback(live.shutdown)
        threading.Thread(target=live.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        policy = self.folder / "policy"
        shutil.rmtree(policy, ignore_errors=True)
        parameters = DiffusionPolicy(SPEC, TINY, seed=0).state_dict()
        save_policy(
            policy, state=parameters, ema_state=None, spec=SPEC, config=TINY, normalization=NORMALIZATION
        )
        limits = Limits(message_bytes=2**20, connections=CROWD + 100)
        self._policy = self._stack.enter_context(serving(policy, limits=limits))
        self._ports = {"live": int(live.server_address[1]), "serve": self._policy.port}
        self._browser = None if self.small else self._stack.enter_context(Browser())
        self._held: list[socket.socket] = []

    def close(self) -> None:
        """Stop everything."""
        for connection in self._held:
            connection.close()
        self._stack.close()

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """One hostile act, then an honest request."""
        if self._browser is not None and number % PAGE_EVERY == PAGE_EVERY - 1:
            folder = self.folder / "page"
            shutil.rmtree(folder, ignore_errors=True)
            return Attempt(1, try_page(folder, self._browser, rng))
        if not self.small and number % CROWD_EVERY == CROWD_EVERY - 2:
            return Attempt(CROWD, asyncio.run(self._crowd()))
        name = str(rng.choice(["live", "serve"]))
        if name == "serve" and rng.random() < 0.5:
            problem = self._message(rng)
        else:
            problem = self._request(name, rng)
        return Attempt(1, problem or self._honest(name, number))

    def _request(self, name: str, rng: Randomness) -> str | None:
        """Bytes that are nearly, or not at all, a request."""
        foreign = rng.random() < 0.4
        host = HOSTS[int(rng.integers(len(HOSTS)))] if foreign else b"127.0.0.1"
        lines = LINES if foreign or rng.random() < 0.5 else STRANGE_LINES
        content = lines[int(rng.integers(len(lines)))] + b"\r\nHost: " + host + b"\r\n"
        content += b"Connection: close\r\n\r\n"
        if not foreign:
            content = mutate_bytes(content, rng)
        connection = socket.create_connection(("127.0.0.1", self._ports[name]), timeout=PATIENCE)
        if rng.random() < 0.2:  # says half, and then nothing
            connection.sendall(content[: len(content) // 2])
            self._held.append(connection)
            if len(self._held) > HELD:
                self._held.pop(0).close()
            return None
        with connection, suppress(ConnectionError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = _read(connection)
            except TimeoutError:
                return f"{name}: no end of the answer to {content[:200]!r}"
            if foreign and b" 200 " in answer.partition(b"\r\n")[0]:
                return f"{name}: answers the name of another host, {host[:60]!r}"
        return None

    def _message(self, rng: Randomness) -> str | None:
        """A message to the policy."""
        message: bytes | str = pack(observation(int(rng.integers(100))))
        how = int(rng.integers(4))
        if how == 0:
            message = mutate_bytes(bytes(message), rng)  # type: ignore[arg-type]
        elif how == 1:
            with suppress(TypeError, ValueError, OverflowError):
                message = msgpack.packb({"front": hostile_value(rng), "pose": hostile_value(rng)})
        elif how == 2:
            message = TEXTS[int(rng.integers(len(TEXTS)))]
        else:
            message = rng.bytes(int(rng.integers(1, 2000)))
        try:
            with websockets.sync.client.connect(
                url(self._policy), compression=None, proxy=None
            ) as connection:
                connection.recv(timeout=PATIENCE)
                connection.send(message)
                reply = connection.recv(timeout=PATIENCE)
        except TimeoutError:
            return f"serve: no answer to {message[:200]!r}"
        except WebSocketException:
            return None  # that connection was ended, which is an answer
        if isinstance(reply, str) and ("Traceback" in reply or "\n" in reply):
            return f"serve: {reply[-300:]}"
        return None

    def _honest(self, name: str, number: int) -> str | None:
        """Whether somebody else is answered."""
        try:
            if name == "serve" and number % 10 == 0:
                with Client(url(self._policy)) as client:
                    actions = client.act(observation(number % 100))
                return None if np.isfinite(actions).all() else "serve: actions that are not finite"
            path = "healthz" if name == "serve" else "version"
            address = f"http://127.0.0.1:{self._ports[name]}/{path}"
            with urllib.request.urlopen(address, timeout=PATIENCE) as reply:
                return None if reply.status == 200 else f"{name}: an honest request got {reply.status}"
        except Exception as error:
            return f"{name}: an honest request failed: {type(error).__name__}: {error}"

    async def _crowd(self) -> str | None:
        """A thousand connections to each server, most of which say nothing; then an honest request."""
        for name, port in self._ports.items():
            writers = []
            for number in range(CROWD):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                if number % 10 == 0:
                    writer.write(b"GET / HTTP/1.1\r\nHost: loc")
                writers.append(writer)
            problem = await asyncio.to_thread(self._honest, name, 1)
            for writer in writers:
                writer.transport.abort()
            if problem is not None:
                return f"among {CROWD} connections: {problem}"
        return None


def _read(connection: socket.socket) -> bytes:
    """Everything until the other side closes, or it is clear that it lives."""
    content = b""
    until = time.monotonic() + PATIENCE
    while part := connection.recv(1 << 16):
        content += part
        if time.monotonic() > until:
            raise TimeoutError
    return content
