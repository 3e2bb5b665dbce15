"""`Shard`: the samples that one of several processes looks after, and how it talks to the others.

Embeddings and action chunks stay with the process that has them. Vectors of one number a sample are put
together, and target rows are sent to all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.weighting.validation import Ids

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Shard:
    """The samples ``start`` to ``stop`` of all; by default all of them, in one process.

    Everything but the properties is collective: all processes of torch's default group must call it, in the
    same order.

    Args:
        start: first sample of this process.
        stop: behind its last sample; None: to the end.
        rank: number of this process; shards are in the order of ranks, and miss nothing.
        size: number of processes.
        device: where tensors must be to be sent: of a GPU with NCCL; None: in this machine's memory.
    """

    start: int = 0
    stop: int | None = None
    rank: int = 0
    size: int = 1
    device: torch.device | None = None

    @classmethod
    def of_group(cls, count: int, device: torch.device | None = None) -> Shard:
        """Part of ``count`` samples that this process of torch's default group has; without a group all."""
        import torch.distributed as dist

        if not dist.is_initialized() or dist.get_world_size() == 1:
            return cls()
        return cls.of_rank(count, dist.get_rank(), dist.get_world_size(), device)

    @classmethod
    def of_rank(cls, count: int, rank: int, size: int, device: torch.device | None = None) -> Shard:
        """The part of ``count`` samples that process ``rank`` of ``size`` has."""
        return cls(count * rank // size, count * (rank + 1) // size, rank, size, device)

    @property
    def is_whole(self) -> bool:
        """Whether this process has all samples."""
        return self.size == 1

    @property
    def rows(self) -> slice:
        """The own samples."""
        return slice(self.start, self.stop)

    def part(self, sorted_ids: Ids) -> slice:
        """Which of these samples, in ascending order, are own."""
        if self.is_whole:
            return slice(0, len(sorted_ids))
        stop = len(sorted_ids) if self.stop is None else int(np.searchsorted(sorted_ids, self.stop))
        return slice(int(np.searchsorted(sorted_ids, self.start)), stop)

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        """The rows of all processes, in their order, on the device of ``own``."""
        gathered = self._gather(own, everywhere=True)
        assert gathered is not None
        return gathered

    def collect(self, own: torch.Tensor) -> torch.Tensor | None:
        """As `gather`, in the first process alone; None in the others."""
        return self._gather(own, everywhere=False)

    def gather_array(self, own: NDArray[Any]) -> NDArray[Any]:
        """As `gather`, of an array."""
        import torch

        if self.is_whole:
            return own
        return np.asarray(self.gather(torch.from_numpy(np.ascontiguousarray(own))).numpy())

    def sum(self, own: torch.Tensor) -> torch.Tensor:
        """The sum over the processes, elementwise, on the device of ``own``."""
        if self.is_whole:
            return own
        import torch.distributed as dist

        total = own.to(self._meeting, copy=True)
        dist.all_reduce(total)
        return total.to(own.device)

    def totals(self, *own: float) -> list[float]:
        """Sums of some numbers over the processes, the same in each of them."""
        if self.is_whole:
            return list(own)
        import torch

        return [float(number) for number in self.sum(torch.tensor(own, dtype=torch.float64))]

    def largest(self, own: float) -> float:
        """The largest of one number a process."""
        if self.is_whole:
            return own
        import torch
        import torch.distributed as dist

        largest = torch.tensor(own, dtype=torch.float64, device=self._meeting)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return float(largest)

    def smallest(self, own: float) -> float:
        """The smallest of one number a process."""
        return -self.largest(-own)

    @property
    def _meeting(self) -> torch.device:
        import torch

        return torch.device("cpu") if self.device is None else self.device

    def _gather(self, own: torch.Tensor, *, everywhere: bool) -> torch.Tensor | None:
        if self.is_whole:
            return own
        import torch
        import torch.distributed as dist

        counts = torch.zeros(self.size, dtype=torch.int64, device=self._meeting)
        counts[self.rank] = len(own)
        dist.all_reduce(counts)
        sizes = counts.tolist()
        sent = torch.zeros(max(sizes), *own.shape[1:], dtype=own.dtype, device=self._meeting)
        sent[: len(own)] = own.to(self._meeting)
        receives = everywhere or self.rank == 0
        parts = [torch.empty_like(sent) for _ in sizes] if receives else None
        if everywhere:
            dist.all_gather(parts, sent)
        else:
            dist.gather(sent, parts, dst=0)
        if parts is None:
            return None
        return torch.cat([part[:count] for part, count in zip(parts, sizes, strict=True)]).to(own.device)


WHOLE = Shard()
