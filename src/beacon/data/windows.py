"""Training samples: one window per time step, as index arithmetic over the episodes' arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from beacon.data.compatibility import check_compatible
from beacon.data.episodes import EpisodeSet
from beacon.devices import upload
from beacon.errors import UserError


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """B windows of To observation steps and a chunk of actions, not normalised."""

    index: Tensor  # (B,) int64, the windows' global index
    domain: Tensor  # (B,) int64
    images: dict[str, Tensor]  # camera -> (B, To, H, W, C) uint8
    proprio: dict[str, Tensor]  # key -> (B, To, d) float32
    actions: Tensor  # (B, horizon, A) float32
    host_domain: NDArray[np.int16] | None = None  # (B,) as ``domain``, for the host to look at

    def __len__(self) -> int:
        return len(self.index)

    def narrow(self, size: int) -> WindowBatch:
        """The first ``size`` windows, as views."""
        return WindowBatch(
            self.index[:size],
            self.domain[:size],
            {key: t[:size] for key, t in self.images.items()},
            {key: t[:size] for key, t in self.proprio.items()},
            self.actions[:size],
            None if self.host_domain is None else self.host_domain[:size],
        )

    def rows(self, domain: int) -> tuple[Tensor, Tensor]:
        """Rows of a domain and of all others, in order, on the batch's device, which is not waited for.

        Args:
            domain: its number.
        """
        of_host = self.domain.cpu().numpy() if self.host_domain is None else self.host_domain
        members = of_host == domain
        own, others = (torch.from_numpy(np.flatnonzero(rows)) for rows in (members, ~members))
        return upload(own, self.domain.device), upload(others, self.domain.device)

    def tensors(self) -> list[Tensor]:
        """Everything that is moved with the batch."""
        return [self.index, self.domain, *self.images.values(), *self.proprio.values(), self.actions]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> WindowBatch:
        """The batch on another device."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        return WindowBatch(
            move(self.index),
            move(self.domain),
            {key: move(t) for key, t in self.images.items()},
            {key: move(t) for key, t in self.proprio.items()},
            move(self.actions),
            self.host_domain,
        )


class Windows:
    """All windows of several domains; N of them, one per time step.

    Window i stands at step t of an episode of length L. It sees the observations at steps
    ``t - obs_steps + 1 .. t`` and is to predict the actions at ``t .. t + horizon - 1``, both clamped to
    ``0 .. L - 1``: the first observation and the last action are repeated at the edges. Windows are numbered
    by domain in the order given, then episode, then time, so an index means the same in every run.
    """

    def __init__(self, sets: Sequence[EpisodeSet], obs_steps: int, horizon: int) -> None:
        if not sets:
            raise UserError("windows need at least one set of demonstrations")
        if obs_steps < 1 or horizon < 1:
            raise UserError(f"obs_steps={obs_steps}, horizon={horizon}: both must be at least 1")
        check_compatible(sets)
        self.sets = list(sets)
        self.obs_steps = obs_steps
        self.horizon = horizon

        # Per episode, numbered through all domains (E,).
        self.episode_length: NDArray[np.int64] = np.concatenate([s.lengths for s in sets])
        self.episode_domain: NDArray[np.int16] = np.repeat(
            np.arange(len(sets), dtype=np.int16), [len(s) for s in sets]
        )
        self._start: NDArray[np.int64] = np.concatenate([s.starts for s in sets])
        self._image_start: NDArray[np.int64] = np.concatenate([s.image_starts for s in sets])

        # Per window (N,).
        self.episode: NDArray[np.int32] = np.repeat(
            np.arange(len(self.episode_length), dtype=np.int32), self.episode_length
        )
        self.domain: NDArray[np.int16] = self.episode_domain[self.episode]
        first = np.cumsum(self.episode_length) - self.episode_length
        self.step: NDArray[np.int32] = (np.arange(len(self.episode)) - first[self.episode]).astype(np.int32)

        self._past = np.arange(1 - obs_steps, 1)  # (To,)
        self._ahead = np.arange(horizon)  # (horizon,)
        # Plain arrays: the memmap class costs time at every indexing and adds nothing here.
        self._images = [{k: np.asarray(a) for k, a in s.images.items()} for s in sets]

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def length(self) -> NDArray[np.int32]:
        """Length of each window's episode (N,)."""
        return self.episode_length[self.episode].astype(np.int32)

    @property
    def phase(self) -> NDArray[np.float32]:
        """How far through its episode each window stands, 0 at the first step and 1 at the last (N,)."""
        last = np.maximum(self.length - 1, 1).astype(np.float32)
        phase: NDArray[np.float32] = self.step.astype(np.float32) / last
        return phase

    @property
    def episode_names(self) -> list[str]:
        """The name of each episode in its own dataset (E,)."""
        return [name for s in self.sets for name in s.episode_names]

    def empty(self, size: int, *, pin_memory: bool = False, images: bool = True) -> WindowBatch:
        """Memory for ``size`` windows, to be filled by ``gather(..., out=...)`` again and again."""
        first = self.sets[0]

        def room(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.empty(size, *shape, dtype=dtype, pin_memory=pin_memory)

        return WindowBatch(
            index=room(dtype=torch.int64),
            domain=room(dtype=torch.int64),
            images={
                k: room(self.obs_steps, *a.shape[1:], dtype=torch.uint8)
                for k, a in first.images.items()
                if images
            },
            proprio={
                k: room(self.obs_steps, a.shape[1], dtype=torch.float32) for k, a in first.proprio.items()
            },
            actions=room(self.horizon, first.action_dim, dtype=torch.float32),
        )

    def gather(
        self, index: ArrayLike | Tensor, out: WindowBatch | None = None, *, images: bool = True
    ) -> WindowBatch:
        """The windows with these indices, in this order; into the memory of ``out`` when given.

        ``out`` may be larger than the batch: its first rows are used and returned. ``images=False`` leaves
        the images out, which are most of the work.
        """
        wanted: NDArray[np.int64] = np.asarray(index, dtype=np.int64).reshape(-1)  # (B,)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(
                f"windows are numbered 0..{len(self) - 1}, asked for {wanted.min()}..{wanted.max()}"
            )
        if out is None:
            batch = self.empty(len(wanted), images=images)
        elif len(out) < len(wanted):
            raise ValueError(f"room for {len(out)} windows, asked for {len(wanted)}")
        else:
            batch = out.narrow(len(wanted))

        domain = self.domain[wanted]
        batch = replace(batch, host_domain=domain)
        batch.index.numpy()[...] = wanted
        batch.domain.numpy()[...] = domain
        episode = self.episode[wanted]
        step = self.step[wanted, None]  # (B, 1)
        last = self.episode_length[episode, None] - 1
        past = np.maximum(step + self._past, 0)  # (B, To)
        ahead = np.minimum(step + self._ahead, last)  # (B, horizon)
        start = self._start[episode, None]
        action_rows, proprio_rows = start + ahead, start + past
        image_rows = self._image_start[episode, None] + past

        present = np.unique(domain).tolist()
        for d in present:
            # With one domain in the batch the arrays are taken straight into place.
            where = None if len(present) == 1 else np.flatnonzero(domain == d)
            source = self.sets[d]
            _take(source.actions, action_rows, where, batch.actions)
            for key, target in batch.proprio.items():
                _take(source.proprio[key], proprio_rows, where, target)
            for key, target in batch.images.items():
                _take(self._images[d][key], image_rows, where, target)
        return batch


def _take(array: NDArray[Any], rows: NDArray[np.int64], where: NDArray[np.int64] | None, out: Tensor) -> None:
    """``out[b] = array[rows[b]]`` for all b, or for those in ``where``. Rows are known to be in range."""
    target = out.numpy()
    if where is None:
        # mode="clip" because the default copies through a buffer when there is an ``out``.
        np.take(array, rows, axis=0, out=target, mode="clip")
    else:
        target[where] = np.take(array, rows[where], axis=0)
