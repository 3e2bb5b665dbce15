"""The policy server: websocket connections, one chunk of actions for every observation."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response
from websockets.protocol import State

from beacon.errors import RunError, UserError
from beacon.policy.trained import TrainedPolicy
from beacon.serving.access import Gate
from beacon.serving.inference import INTERNAL, Answer, InferenceThread, Job
from beacon.serving.metrics import ServerMetrics
from beacon.serving.options import ServeOptions
from beacon.serving.protocol import describe_policy, read_request
from beacon.serving.rate import RateLimit
from beacon.serving.session import Session
from beacon.serving.wire import pack, unpack

log = logging.getLogger("beacon.serving")


class PolicyServer:
    """Serves one policy until it is told to stop."""

    def __init__(self, policy: TrainedPolicy, options: ServeOptions) -> None:
        """Prepare a server; `run` starts it.

        Args:
            policy: what is served; nobody else may use it meanwhile.
            options: where, for whom, and how much of it.
        """
        self.options, self.policy = options, policy
        self.metrics = ServerMetrics()
        self.metadata = describe_policy(policy, seed=options.seed, limits=options.limits)
        self.inference = InferenceThread(policy, options.limits, self.metrics, options.threads)
        self._greeting = pack(self.metadata)
        self._gate = Gate(options)
        self._busy: set[ServerConnection] = set()
        self._stopping = False
        self.port = options.port  # the one that is listened on, once it is

    async def run(self, stop: asyncio.Event, ready: Callable[[PolicyServer], None] | None = None) -> None:
        """Serve until ``stop`` is set; then answer what is in flight, close all connections and return.

        Args:
            stop: ends the server.
            ready: called once connections are accepted.
        """
        try:
            await asyncio.to_thread(self.inference.ready)
            server = await self._listen()
            self.port = server.sockets[0].getsockname()[1]
            try:
                if ready is not None:
                    ready(self)
                await stop.wait()
            finally:
                await self._close(server)
        finally:
            await asyncio.to_thread(self.inference.stop)

    async def _listen(self) -> Server:
        options, limits = self.options, self.options.limits
        try:
            return await serve(
                self._serve_connection,
                options.host,
                options.port,
                process_request=self._process_request,
                compression=None,
                max_size=limits.message_bytes,
                max_queue=2,
                logger=_quiet_logger(),
                server_header=None,
                backlog=1024,
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UserError(
                    f"--port {options.port}: another program listens on {options.host}:{options.port}; "
                    "choose another port"
                ) from None
            reason = "no such address" if isinstance(error, socket.gaierror) else error.strerror or error
            raise UserError(f"cannot listen on {options.host}:{options.port}: {reason}") from None

    async def _close(self, server: Server) -> None:
        self._stopping = True
        server.close(close_connections=False)
        await asyncio.sleep(0)  # connections that have a message at hand take it up
        deadline = time.monotonic() + self.options.limits.stop_seconds
        while self._busy and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.gather(
            *(connection.close(1001, "the server stops") for connection in server.connections),
            return_exceptions=True,
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), self.options.limits.send_seconds)

    def _process_request(self, connection: ServerConnection, request: HttpRequest) -> Response | None:
        """Answer plain HTTP requests; refuse who may not connect."""
        path = request.path.partition("?")[0]
        refusal = self._gate.refusal(request.headers, needs_key=path != "/healthz")
        if refusal is not None:
            self.metrics.count_error("refused")
            return connection.respond(refusal[0], refusal[1] + "\n")
        if path == "/healthz":
            return connection.respond(HTTPStatus.OK, "OK\n")
        if path == "/metrics":
            return connection.respond(HTTPStatus.OK, self.metrics.text())
        if self.metrics.connections >= self.options.limits.connections:
            self.metrics.count_error("connections")
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")
        return None

    async def _serve_connection(self, connection: ServerConnection) -> None:
        session = Session(self.policy, self.options.seed)
        rate = RateLimit(self.options.limits.requests_per_second, time.monotonic())
        previous: float | None = None
        self.metrics.count_connection()
        self.metrics.connections += 1
        try:
            await self._send(connection, self._greeting)
            while not self._stopping:
                message = await connection.recv()
                began = time.perf_counter()
                self._busy.add(connection)
                self.metrics.in_flight = len(self._busy)
                try:
                    if delay := rate.delay(time.monotonic()):
                        await asyncio.sleep(delay)
                    reply = await self._reply(connection, session, message, began, previous)
                    await self._send(connection, reply)
                finally:
                    self._busy.discard(connection)
                    self.metrics.in_flight = len(self._busy)
                previous = time.perf_counter() - began
        except ConnectionClosed:  # at any moment, in mid-request too: nobody waits for an answer
            pass
        except TimeoutError:
            self.metrics.count_error("stopped reading")
            connection.transport.abort()
        finally:
            self.metrics.connections -= 1

    async def _reply(
        self,
        connection: ServerConnection,
        session: Session,
        message: str | bytes,
        began: float,
        previous: float | None,
    ) -> bytes | str:
        """The answer to one message: a map, or a text that says what is wrong with it."""
        try:
            if isinstance(message, str):
                raise UserError("binary messages in msgpack are expected, not text")
            request = read_request(unpack(message, self.options.limits), self.options.limits)
            if request.reset:
                session.reset(request.seeds)
                if not request.observation:
                    return pack({"reset": True})
            rows = request.rows or (0,)
            job = Job(
                session.histories(request),
                session.generators(rows),
                alone=request.rows is not None,
                wanted=lambda: connection.state is State.OPEN,
                loop=asyncio.get_running_loop(),
            )
            try:
                answer = await self.inference.submit(job)
            except (UserError, RunError):
                if not (request.history or request.rows):
                    session.forget_last()
                raise
        except UserError as error:
            self.metrics.count_error("request")
            return f"{error}"
        except RunError as error:
            self.metrics.count_error("inference")
            return f"{error}"
        except Exception as error:  # a bug of ours: the client is told so, the log has the rest
            log.error("request failed", exc_info=error)
            self.metrics.count_error("internal")
            return INTERNAL
        self.metrics.count_request(time.perf_counter() - began)
        return pack(_actions(answer, batch=request.rows is not None, previous=previous))

    async def _send(self, connection: ServerConnection, data: bytes | str) -> None:
        async with asyncio.timeout(self.options.limits.send_seconds):
            await connection.send(data)


def _actions(answer: Answer, *, batch: bool, previous: float | None) -> dict[str, Any]:
    timing = {"infer_ms": 1000 * answer.seconds}
    if previous is not None:
        timing["prev_total_ms"] = 1000 * previous
    return {"actions": answer.actions if batch else answer.actions[0], "server_timing": timing}


def _quiet_logger() -> logging.Logger:
    """Broken handshakes are the sender's matter: counted, not printed."""
    logger = logging.getLogger("beacon.serving.websockets")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
