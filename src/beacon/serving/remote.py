"""A served policy as evaluation sees one: ``beacon evaluate ws://127.0.0.1:8000``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.serving.access import read_key
from beacon.serving.client import Client

KEY_FILE = "BEACON_KEY_FILE"  # environment variable that names the file with the server's key
TIMEOUT = 600.0  # seconds that a batch of an evaluation may take
PATIENCE = 30.0  # seconds of waiting for the server


class RemotePolicy:
    """Histories (B, obs_steps, ...) to actions (B, action_steps, A), computed by a server.

    A batch is computed as one, alone and on one thread, as evaluation does itself: the same bits.
    """

    def __init__(self, url: str) -> None:
        """Connect.

        Args:
            url: of the server; its key, if it has one, is in the file that $BEACON_KEY_FILE names.
        """
        file = os.environ.get(KEY_FILE)
        key = read_key(Path(file)) if file else None
        self._client = Client(url, key=key, timeout=TIMEOUT, patience=PATIENCE)
        self.metadata = self._client.metadata

    @property
    def obs_steps(self) -> int:
        """How many observations a history has."""
        return int(self.metadata["obs_steps"])

    @property
    def action_steps(self) -> int:
        """How many actions come back."""
        return int(self.metadata["action_steps"])

    @property
    def observation_keys(self) -> list[str]:
        """What an observation must have."""
        return list(self.metadata["observation"])

    def act(self, observation: Mapping[str, Any], *, rows: Sequence[int]) -> NDArray[np.float32]:
        """Actions for a batch of histories, each row with its own random numbers."""
        wanted = {key: observation[key] for key in self.observation_keys}
        return self._client.act_batch(wanted, rows)[:, : self.action_steps]

    def reset(self, seed: int | Sequence[int]) -> None:
        """Start the random numbers again: row i from ``seed[i]``."""
        self._client.reset_rows([seed] if isinstance(seed, int) else seed)
