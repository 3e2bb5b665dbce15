"""What the two clients share: messages, history, answers. Nothing here waits for the network."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from beacon.errors import RunError, UserError
from beacon.serving.options import Limits, is_loopback
from beacon.serving.protocol import HISTORY, RESET, ROWS, SEED
from beacon.serving.wire import pack, unpack

FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between two attempts to connect
LARGEST_ANSWER = Limits(items=100_000)
CONNECTING = (OSError, TimeoutError, InvalidHandshake, ConnectionClosed)  # what may go wrong, and pass


class ServerUnavailable(RunError):
    """The server did not answer in time, or cannot be reached."""


@dataclass(frozen=True)
class ClientOptions:
    """How a client connects."""

    url: str  # ws://HOST:PORT or wss://HOST
    key: str | None = None  # sent as 'Authorization: Api-Key KEY'
    timeout: float = 10.0  # seconds that one answer may take
    patience: float = 30.0  # seconds of trying to connect, at first and after a connection broke

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise UserError(f"{self.url}: an address such as ws://127.0.0.1:8000 is expected")
        if not self.timeout > 0 or not self.patience >= 0:
            raise UserError("timeout must be above 0 and patience at least 0")

    def connection_arguments(self) -> dict[str, Any]:
        """For ``connect`` of websockets, sync or async."""
        arguments: dict[str, Any] = {
            "compression": None,
            "max_size": LARGEST_ANSWER.message_bytes,
            "open_timeout": self.timeout,
            "close_timeout": 1.0,
            "additional_headers": {"Authorization": f"Api-Key {self.key}"} if self.key else None,
        }
        if is_loopback(urlsplit(self.url).hostname or ""):
            arguments["proxy"] = None  # proxy settings of a shell are for other machines
        return arguments


class ConnectionAttempts:
    """How long a client goes on trying to connect."""

    def __init__(self, options: ClientOptions) -> None:
        """Begin now.

        Args:
            options: the address, and how much patience there is.
        """
        self._options = options
        self._deadline = time.monotonic() + options.patience
        self._wait = FIRST_WAIT

    def wait_after(self, error: Exception) -> float:
        """Seconds until the next attempt; raises what the user must know if there is none."""
        reason = str(error) or type(error).__name__
        if isinstance(error, InvalidStatus):
            reason = f"HTTP {error.response.status_code}"
            if error.response.status_code < 500:  # it will not have us later either
                body = (error.response.body or b"").decode("utf-8", "replace").strip()
                raise UserError(f"{self._options.url}: {reason}: {body[:200]}") from None
        # With some randomness, so that several robots do not come at the same moment.
        wait = self._wait * random.uniform(0.5, 1.0)
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        if time.monotonic() + wait > self._deadline:
            raise ServerUnavailable(f"{self._options.url}: cannot be reached ({reason})") from None
        return wait


def broken(options: ClientOptions, error: Exception) -> ServerUnavailable:
    """What the user is told of a connection that ended."""
    return ServerUnavailable(f"{options.url}: the connection broke ({error})")


def too_big(error: Exception) -> bool:
    """Whether the server ended a connection because a message was larger than it allows."""
    return isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code == 1009


class ClientState:
    """History on the robot's side, and the seed: what a broken connection must not lose."""

    def __init__(self, seed: int | None) -> None:
        """Begin without observations.

        Args:
            seed: of the server's random numbers for this client; None: as the server chooses.
        """
        self.metadata: dict[str, Any] = {}
        self.seed = seed
        self._lock = threading.Lock()  # a robot observes in one thread while another asks
        self._steps: deque[dict[str, NDArray[Any]]] = deque(maxlen=1)

    def take_metadata(self, data: str | bytes) -> dict[str, Any]:
        """Read the server's first message."""
        metadata = read_answer(data)
        if metadata.get("server") != "beacon" or not isinstance(metadata.get("obs_steps"), int):
            raise UserError("the server at this address serves no policy of beacon")
        self.metadata = metadata
        with self._lock:
            self._steps = deque(self._steps, maxlen=max(1, metadata["obs_steps"]))
        return metadata

    def observe(self, observation: Mapping[str, ArrayLike]) -> None:
        """Remember one step."""
        # Copies: a camera may reuse its buffer for the next image. Texts, such as a prompt, are not observed.
        arrays = {key: np.array(value) for key, value in observation.items() if not isinstance(value, str)}
        with self._lock:
            if self._steps and (other := _differing(self._steps[-1], arrays)):
                was, now = (_described(step, other[0]) for step in (self._steps[-1], arrays))
                raise UserError(
                    f"{', '.join(other)}: an observation's keys and shapes stay the same until reset(); "
                    f"{other[0]} was {was}, now it is {now}"
                )
            self._steps.append(arrays)

    def forget_last(self) -> None:
        """Forget the newest step, which the server refused."""
        with self._lock:
            if self._steps:
                self._steps.pop()

    def message(self) -> bytes:
        """A request for actions, with all the history that the policy wants."""
        with self._lock:
            steps = list(self._steps)
        if not steps:
            raise UserError("there is no observation yet")
        stacked = {key: np.stack([step[key] for step in steps]) for key in steps[-1]}
        return pack({**stacked, HISTORY: True})

    def reset_message(self, seed: int | None = None) -> bytes:
        """A request to start again; forgets the history here, too."""
        with self._lock:
            self._steps.clear()
        if seed is not None:
            self.seed = seed
        return self.start_message()

    def start_message(self) -> bytes:
        """What a new connection is sent first when there is a seed."""
        return pack({RESET: True} | ({} if self.seed is None else {SEED: self.seed}))


def batch_message(observation: Mapping[str, ArrayLike], rows: Sequence[int]) -> bytes:
    """A request for a batch of histories (B, T, ...)."""
    return pack({**{key: np.asarray(value) for key, value in observation.items()}, ROWS: list(rows)})


def rows_reset_message(seeds: Sequence[int]) -> bytes:
    """A request to start the random numbers of a batch's rows from these seeds."""
    return pack({RESET: True, SEED: np.array(seeds, np.int64)})


def read_answer(data: str | bytes) -> dict[str, Any]:
    """An answer's content; a text is the server's complaint."""
    if isinstance(data, str):
        raise UserError(f"the server refused: {data}")
    answer = unpack(data, LARGEST_ANSWER)
    if not isinstance(answer, dict):
        raise RunError("the server's answer is no map")
    return answer


def read_actions(answer: Mapping[str, Any]) -> NDArray[np.float32]:
    """The actions of an answer, finite."""
    actions = answer.get("actions")
    if not isinstance(actions, np.ndarray) or not np.isfinite(actions).all():
        raise RunError("the server's answer has no actions that are finite; do not execute it")
    return actions.astype(np.float32)  # a copy that may be written to


def _differing(before: Mapping[str, NDArray[Any]], now: Mapping[str, NDArray[Any]]) -> list[str]:
    """Keys that only one of two steps has, or that have other shapes."""
    keys = sorted(before.keys() | now.keys())
    return [key for key in keys if _described(before, key) != _described(now, key)]


def _described(step: Mapping[str, NDArray[Any]], key: str) -> str:
    return f"of shape {step[key].shape}" if key in step else "not there"
