"""What gradient steps have computed anyway, kept for the next refresh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices

if TYPE_CHECKING:
    from torch import Tensor


class Memory:
    """The last loss and embedding that was computed of every window, and when."""

    def __init__(self, size: int) -> None:
        # NumPy, because of a window that comes twice in a mini-batch the last one must win every time.
        self.losses: NDArray[np.float32] = np.zeros(size, np.float32)
        self.embeddings: NDArray[np.float32] = np.zeros((size, 0), np.float32)
        self.epoch: NDArray[np.int64] = np.full(size, -1)

    def keep(self, index: Indices, losses: Tensor, embeddings: Tensor, epoch: int) -> None:
        """Remember what was computed of these windows."""
        if self.embeddings.shape[1] != embeddings.shape[1]:
            self.embeddings = np.zeros((len(self.losses), embeddings.shape[1]), np.float32)
        self.losses[index] = losses.detach().float().cpu().numpy()
        self.embeddings[index] = embeddings.detach().float().cpu().numpy()
        self.epoch[index] = epoch

    def older_than(self, epoch: int) -> Indices:
        """Windows that were never seen, or last before ``epoch``."""
        return np.flatnonzero(self.epoch < max(epoch, 0))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything that is remembered, as arrays; nothing before the first."""
        if self.embeddings.shape[1] == 0:
            return {}
        return {name: getattr(self, name).copy() for name in ("losses", "embeddings", "epoch")}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if not state:
            return
        try:
            losses, embeddings, epoch = (np.array(state[name]) for name in ("losses", "embeddings", "epoch"))
        except KeyError as error:
            raise UserError(f"the checkpoint belongs to another method: no memory of {error}") from None
        size = len(self.losses)
        if losses.shape != (size,) or epoch.shape != (size,) or embeddings.shape[:1] != (size,):
            raise UserError(f"the checkpoint belongs to other data: of {losses.size} windows, not {size}")
        self.losses, self.embeddings, self.epoch = losses, embeddings, epoch
