"""What the server remembers of one connection: observations and random numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.policy.observations import read_observation
from beacon.policy.trained import TrainedPolicy
from beacon.serving.options import LARGEST_SEED
from beacon.serving.protocol import Request

LARGEST_ROWS = 100_000  # generators of one connection


class Session:
    """One connection's history and random numbers; row i of a batch has a generator of its own."""

    def __init__(self, policy: TrainedPolicy, seed: int) -> None:
        """Begin with an empty history.

        Args:
            policy: what is served.
            seed: of the random numbers until the client sends one.
        """
        self._policy = policy
        self._seeds: tuple[int, ...] = (seed,)
        self._steps: deque[dict[str, NDArray[Any]]] = deque(maxlen=policy.obs_steps)
        self._generators: dict[int, torch.Generator] = {}

    def reset(self, seeds: Sequence[int] | None) -> None:
        """Forget all observations; start the random numbers again, from other seeds if they are given."""
        self._steps.clear()
        self._generators.clear()
        if seeds is not None:
            self._seeds = tuple(seeds)

    def histories(self, request: Request) -> dict[str, NDArray[Any]]:
        """The observation of a request with what came before, (B, T, ...) by the policy's names."""
        axes = "batch-history" if request.rows is not None else "history" if request.history else "step"
        policy = self._policy
        arrays, _ = read_observation(
            request.observation,
            policy.spec,
            policy.deployment,
            axes,  # type: ignore[arg-type]
        )
        if request.rows is not None:
            if len(next(iter(arrays.values()))) != len(request.rows):
                raise UserError(f"{len(request.rows)} rows, but observations of another batch size")
            return arrays
        if request.history:
            return arrays
        if self._steps:
            for name, before in self._steps[-1].items():
                if before.shape != arrays[name].shape:
                    raise UserError(
                        f"{name}: shape {arrays[name].shape[2:]} after {before.shape[2:]} in one history; "
                        "send 'reset' first"
                    )
        self._steps.append(arrays)
        if len(self._steps) == 1:
            return arrays
        return {name: np.concatenate([step[name] for step in self._steps], axis=1) for name in arrays}

    def forget_last(self) -> None:
        """Forget the newest step: what failed once would fail again with the next."""
        if self._steps:
            self._steps.pop()

    def generators(self, rows: Sequence[int]) -> list[torch.Generator]:
        """The random numbers of these rows; a connection without rows has row 0 alone."""
        return [self._generator(row) for row in rows]

    def _generator(self, row: int) -> torch.Generator:
        if row not in self._generators:
            if len(self._seeds) > 1 and row >= len(self._seeds):
                raise UserError(f"row {row}: 'reset' was sent with {len(self._seeds)} seeds")
            if len(self._generators) >= LARGEST_ROWS:
                raise UserError(f"more than {LARGEST_ROWS} rows; send 'reset'")
            seed = self._seeds[row] if len(self._seeds) > 1 else (self._seeds[0] + row) & LARGEST_SEED
            self._generators[row] = torch.Generator().manual_seed(seed)
        return self._generators[row]
