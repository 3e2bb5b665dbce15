"""One policy for all workers of an evaluation, such as one on a GPU: they simulate, and those that wait for
actions are answered together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np

from beacon.errors import RunError, UserError
from beacon.sim.arrays import Array
from beacon.sim.policies import Policy, act_rows, start_batch

LOOK = 0.1  # seconds after which the host looks for new workers


@dataclass(frozen=True)
class Ticket:
    """How a worker finds the policy, and what it has to know of it."""

    address: str
    key: bytes
    obs_steps: int
    action_steps: int
    observation_keys: tuple[str, ...]
    action_dim: int | None
    cameras: tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes of the pictures that it sees


class PolicyHost:
    """Answers workers in a thread of this process, while the block runs."""

    def __init__(self, policy: Policy, seeds: Sequence[int]) -> None:
        """Let workers ask ``policy``.

        Args:
            policy: has random numbers of its own for every row; see `beacon.sim.policies.keeps_rows`.
            seeds: of all rows.
        """
        self._policy = policy
        start_batch(policy, seeds, range(len(seeds)))
        key = os.urandom(32)
        self._listener = Listener(family="AF_UNIX", authkey=key, backlog=64)
        self._connections: list[Connection[Any, Any]] = []
        self._stopping = False
        spec = getattr(policy, "spec", None)
        self.most_together = 0  # rows in one look of the policy, so far
        self.ticket = Ticket(
            str(self._listener.address),
            key,
            policy.obs_steps,
            policy.action_steps,
            tuple(policy.observation_keys),
            getattr(spec, "action_dim", None),
            tuple((name, tuple(shape)) for name, shape in getattr(spec, "cameras", {}).items()),
        )
        self._threads = [
            threading.Thread(target=target, name=f"policy-{name}", daemon=True)
            for name, target in (("welcome", self._welcome), ("host", self._serve))
        ]

    def __enter__(self) -> PolicyHost:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        Client(self.ticket.address, authkey=self.ticket.key).close()  # wakes the thread that welcomes
        for thread in self._threads:
            thread.join()
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _welcome(self) -> None:
        while not self._stopping:
            try:
                self._connections.append(self._listener.accept())
            except (OSError, EOFError):  # a worker that died on its way
                continue

    def _serve(self) -> None:
        while not self._stopping:
            requests = []
            for connection in wait(list(self._connections), timeout=LOOK):
                assert isinstance(connection, Connection)
                try:
                    requests.append((connection, *connection.recv()))
                except (OSError, EOFError):  # its worker has ended
                    self._connections.remove(connection)
            if requests:
                self._answer(requests)

    def _answer(self, requests: list[tuple[Connection[Any, Any], dict[str, Array], list[int]]]) -> None:
        """Ask the policy once for all who wait."""
        rows = [row for _, _, asked in requests for row in asked]
        answers: list[Any]
        try:
            observation = {
                key: np.concatenate([seen[key] for _, seen, _ in requests])
                for key in self.ticket.observation_keys
            }
            self.most_together = max(self.most_together, len(rows))
            chunks = act_rows(self._policy, observation, rows)
            ends = np.cumsum([len(asked) for _, _, asked in requests])[:-1]
            answers = [np.ascontiguousarray(part) for part in np.split(chunks, ends)]
        except Exception as error:  # whatever a policy raises, nobody may wait for ever
            answers = [(type(error).__name__, str(error))] * len(requests)
        for (connection, _, _), answer in zip(requests, answers, strict=True):
            try:
                connection.send(answer)
            except OSError:
                self._connections.remove(connection)


class SharedPolicy:
    """The host's policy, in a worker."""

    def __init__(self, ticket: Ticket) -> None:
        self.obs_steps, self.action_steps = ticket.obs_steps, ticket.action_steps
        self.observation_keys = ticket.observation_keys
        self.spec = SimpleNamespace(action_dim=ticket.action_dim, cameras=dict(ticket.cameras))
        self._connection = Client(ticket.address, authkey=ticket.key)

    def reset(self, seed: Any) -> None:
        """Nothing: the host has started the random numbers of all rows."""

    def act(self, observation: Mapping[str, Any], rows: Sequence[int] = ()) -> Array:
        """Actions (B, action_steps, A) for these rows of the evaluation."""
        try:
            self._connection.send((dict(observation), list(rows)))
            answer = self._connection.recv()
        except (OSError, EOFError):
            raise RunError("the process that has the policy is gone") from None
        if isinstance(answer, tuple):
            name, message = answer
            raise UserError(message) if name == "UserError" else RunError(f"the policy failed: {message}")
        return np.asarray(answer)
