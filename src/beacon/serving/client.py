"""A client for robots' programs: asks for actions, waits, connects again when the network broke."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from beacon.errors import UserError
from beacon.serving.client_state import (
    CONNECTING,
    ClientOptions,
    ClientState,
    ConnectionAttempts,
    ServerUnavailable,
    batch_message,
    broken,
    read_actions,
    read_answer,
    rows_reset_message,
    too_big,
)


class Client:
    """Actions from a policy server.

    >>> with Client("ws://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     client.reset(seed=0)
    ...     actions = client.act(observation)  # (horizon, action dims)

    The history that the policy wants is kept here: call ``observe`` on control steps in between that ask for
    nothing. So a broken connection loses nothing but the server's random numbers, which start again.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        seed: int | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
    ) -> None:
        """Connect.

        Args:
            url: ws://HOST:PORT, or wss://HOST behind a proxy that encrypts.
            key: the server's key, if it has one.
            seed: of the policy's random numbers; None: the server's own.
            timeout: seconds that an answer may take.
            patience: seconds of trying to connect, now and whenever the connection broke.
        """
        self.options = ClientOptions(url, key, timeout, patience)
        self.reconnects = 0
        self._state = ClientState(seed)
        self._turn = threading.Lock()  # one question at a time
        self._background = ThreadPoolExecutor(1, "beacon-client")
        self._connection: ClientConnection | None = self._connect()

    @property
    def metadata(self) -> dict[str, Any]:
        """What the server says of the policy: observations, horizon, steps to execute, control rate, ..."""
        return self._state.metadata

    def observe(self, observation: Mapping[str, ArrayLike]) -> None:
        """Remember the observation of one control step, without asking for actions."""
        self._state.observe(observation)

    def act(self, observation: Mapping[str, ArrayLike] | None = None) -> NDArray[np.float32]:
        """Actions (horizon, A) for this step, of which ``metadata["action_steps"]`` are meant to be executed.

        Args:
            observation: of this step; None: the one that ``observe`` was given last.
        """
        return read_actions(self.infer(observation))

    def act_later(self, observation: Mapping[str, ArrayLike] | None = None) -> Future[NDArray[np.float32]]:
        """As ``act``, without waiting: the robot goes on moving while the next chunk is computed."""
        if observation is not None:
            self._state.observe(observation)
        message = self._state.message()
        return self._background.submit(lambda: read_actions(self._ask_for_actions(message)))

    def infer(self, observation: Mapping[str, ArrayLike] | None = None) -> dict[str, Any]:
        """The server's whole answer: ``actions`` and ``server_timing``."""
        if observation is not None:
            self._state.observe(observation)
        return self._ask_for_actions(self._state.message())

    def act_batch(self, observation: Mapping[str, ArrayLike], rows: Sequence[int]) -> NDArray[np.float32]:
        """Actions (B, horizon, A) for histories (B, T, ...); row i has the random numbers of seed i."""
        return read_actions(self._ask(batch_message(observation, rows), again=False))

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode: forget the history, start the random numbers again."""
        self._ask(self._state.reset_message(seed))

    def reset_rows(self, seeds: Sequence[int]) -> None:
        """Give every row of ``act_batch`` a seed."""
        self._ask(rows_reset_message(seeds))

    def close(self) -> None:
        """End the connection."""
        self._background.shutdown(wait=False, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_for_actions(self, message: bytes) -> dict[str, Any]:
        try:
            return self._ask(message)
        except UserError:
            self._state.forget_last()  # what was refused once would be refused again with the next step
            raise

    def _ask(self, message: bytes, *, again: bool = True) -> dict[str, Any]:
        """Send a message and wait for its answer.

        Args:
            message: what is sent.
            again: send it once more on a new connection if the old one broke; not where the random numbers of
                the old one are needed.
        """
        with self._turn:
            try:
                return self._exchange(message)
            except (ConnectionClosed, OSError) as error:
                if not again or too_big(error):
                    raise broken(self.options, error) from None
            try:
                return self._exchange(message)
            except (ConnectionClosed, OSError) as error:
                raise broken(self.options, error) from None

    def _exchange(self, message: bytes) -> dict[str, Any]:
        if self._connection is None:
            self.reconnects += 1
            self._connection = self._connect()
        try:
            self._connection.send(message)
            data = self._connection.recv(timeout=self.options.timeout)
        except TimeoutError:
            self._drop()  # its answer would be taken for that of the next question
            raise ServerUnavailable(
                f"{self.options.url}: no answer within {self.options.timeout:g} s"
            ) from None
        except (ConnectionClosed, OSError):
            self._drop()
            raise
        return read_answer(data)

    def _connect(self) -> ClientConnection:
        attempts = ConnectionAttempts(self.options)
        while True:
            try:
                connection = self._open()
                self._state.take_metadata(connection.recv(timeout=self.options.timeout))
                if self._state.seed is not None:
                    connection.send(self._state.start_message())
                    read_answer(connection.recv(timeout=self.options.timeout))
                return connection
            except CONNECTING as error:
                wait = attempts.wait_after(error)
            time.sleep(wait)

    def _open(self) -> ClientConnection:
        arguments = self.options.connection_arguments()
        connection: ClientConnection = connect(self.options.url, **arguments).__enter__()
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close_socket()  # at once, without a goodbye that nobody may hear
