"""The client for programs that have an event loop of their own; as `Client`, with ``await``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from beacon.errors import UserError
from beacon.serving.client_state import (
    CONNECTING,
    ClientOptions,
    ClientState,
    ConnectionAttempts,
    ServerUnavailable,
    read_actions,
    read_answer,
    too_big,
)


class AsyncClient:
    """Actions from a policy server: ``async with AsyncClient("ws://127.0.0.1:8000") as client: ...``."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        seed: int | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
    ) -> None:
        """Prepare; the connection is made on entering the block, or by the first question.

        Args:
            url: ws://HOST:PORT, or wss://HOST behind a proxy that encrypts.
            key: the server's key, if it has one.
            seed: of the policy's random numbers; None: the server's own.
            timeout: seconds that an answer may take.
            patience: seconds of trying to connect, at first and whenever the connection broke.
        """
        self.options = ClientOptions(url, key, timeout, patience)
        self.reconnects = -1  # the first connection is none
        self._state = ClientState(seed)
        self._connection: ClientConnection | None = None
        self._turn = asyncio.Lock()  # one question at a time

    @property
    def metadata(self) -> dict[str, Any]:
        """What the server says of the policy; empty before the first connection."""
        return self._state.metadata

    def observe(self, observation: Mapping[str, ArrayLike]) -> None:
        """Remember the observation of one control step, without asking for actions."""
        self._state.observe(observation)

    async def act(self, observation: Mapping[str, ArrayLike] | None = None) -> NDArray[np.float32]:
        """Actions (horizon, A), as `Client.act`."""
        return read_actions(await self.infer(observation))

    async def infer(self, observation: Mapping[str, ArrayLike] | None = None) -> dict[str, Any]:
        """The server's whole answer, as `Client.infer`."""
        if observation is not None:
            self._state.observe(observation)
        try:
            return await self._ask(self._state.message())
        except UserError:
            self._state.forget_last()  # what was refused once would be refused again with the next step
            raise

    async def reset(self, seed: int | None = None) -> None:
        """Begin an episode: forget the history, start the random numbers again."""
        await self._ask(self._state.reset_message(seed))

    async def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def __aenter__(self) -> Self:
        self._connection = await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, message: bytes) -> dict[str, Any]:
        async with self._turn:
            for attempt in range(2):
                if self._connection is None:
                    self._connection = await self._connect()
                try:
                    async with asyncio.timeout(self.options.timeout):
                        await self._connection.send(message)
                        return read_answer(await self._connection.recv())
                except TimeoutError:
                    self._drop()
                    raise ServerUnavailable(
                        f"{self.options.url}: no answer within {self.options.timeout:g} s"
                    ) from None
                except asyncio.CancelledError:
                    self._drop()  # its answer would be taken for that of the next question
                    raise
                except (ConnectionClosed, OSError) as error:
                    self._drop()
                    if attempt or too_big(error):
                        raise ServerUnavailable(
                            f"{self.options.url}: the connection broke ({error})"
                        ) from None
        raise AssertionError("unreachable")

    async def _connect(self) -> ClientConnection:
        self.reconnects += 1
        attempts = ConnectionAttempts(self.options)
        while True:
            try:
                connection = await connect(self.options.url, **self.options.connection_arguments())
                async with asyncio.timeout(self.options.timeout):
                    self._state.take_metadata(await connection.recv())
                    if self._state.seed is not None:
                        await connection.send(self._state.start_message())
                        read_answer(await connection.recv())
                return connection
            except CONNECTING as error:
                wait = attempts.wait_after(error)
            await asyncio.sleep(wait)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.abort()
