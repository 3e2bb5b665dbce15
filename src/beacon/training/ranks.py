"""The processes of one run. Each computes a part of every mini-batch and of every refresh; all hold the same
parameters, and one of them writes.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from beacon.devices import choose_device
from beacon.errors import RunError, UserError
from beacon.methods import Measurements
from beacon.methods.base import Indices
from beacon.policy import DiffusionPolicy, Encoding
from beacon.randomness import Share
from beacon.weighting.shard import WHOLE, Shard

RENDEZVOUS = "BEACON_RENDEZVOUS"  # where the processes of `beacon train --processes` meet
PATIENCE = timedelta(days=2)  # one process may train a reference policy while the others wait


@dataclass(frozen=True)
class Ranks:
    """A process among those of the run; by default it is the only one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those on this machine

    @property
    def is_alone(self) -> bool:
        """Whether this process is the whole run."""
        return self.size == 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run folder."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """The device of this process: with several GPUs on a machine, each process has its own."""
        device = choose_device(name)
        if self.is_alone or device.type != "cuda":
            return device
        if self.local_rank >= torch.cuda.device_count():
            raise UserError(
                f"{torch.cuda.device_count()} GPUs are too few for the processes of this run on this machine"
            )
        own = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(own)
        return own

    def share(self, batch_size: int) -> Share | None:
        """The rows of every mini-batch that are this process's; None: all."""
        if self.is_alone:
            return None
        if batch_size % self.size:
            raise UserError(f"--batch-size {batch_size}: must be a multiple of the {self.size} processes")
        rows = batch_size // self.size
        return Share(self.rank * rows, rows, batch_size)

    def parallel(self, network: nn.Module, device: torch.device) -> nn.Module:
        """A network whose gradients are averaged over the processes during the backward pass."""
        if self.is_alone:
            return network
        numbers = [device.index or 0] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=numbers, broadcast_buffers=False)

    # Exchange

    def wait(self) -> None:
        """Wait until all processes have come so far."""
        if not self.is_alone:
            dist.barrier()

    @contextmanager
    def first_goes_first(self, *, on_machine: bool = False) -> Iterator[None]:
        """Inside the block the first process works before the others, which find what it has written.

        Args:
            on_machine: the first process of every machine.
        """
        goes_first = (self.local_rank if on_machine else self.rank) == 0
        if not goes_first:
            self.wait()
        yield
        if goes_first:
            self.wait()

    def agree(self, value: Any) -> Any:
        """What the first process says, a small object."""
        if self.is_alone:
            return value
        said = [value]
        dist.broadcast_object_list(said, src=0)
        return said[0]

    def agree_on_batches(self, batches: Indices, device: torch.device) -> Indices:
        """The first process's mini-batches: with GPUs of several kinds, weights may differ in a last bit."""
        if self.is_alone:
            return batches
        shared = torch.from_numpy(np.ascontiguousarray(batches)).to(device)
        dist.broadcast(shared, src=0)
        return np.asarray(shared.cpu().numpy())

    def whole_batch(self, encoding: Encoding, *losses: Tensor) -> tuple[Encoding, list[Tensor]]:
        """Encodings and vectors of the whole mini-batch, of which this process has computed its rows.

        Gradients go through the own rows alone: summed over the processes they are those of the whole batch.

        Args:
            encoding: of the own rows.
            losses: vectors over the own rows.
        """
        columns = [encoding.observation.float(), *(vector.float()[:, None] for vector in losses)]
        own = torch.cat(columns, dim=1)
        parts = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(parts, own.detach().contiguous())
        parts[self.rank] = own
        everything = torch.cat(parts)
        width = encoding.observation.shape[1]
        observation = everything[:, :width]
        whole = Encoding(observation[:, : encoding.vision.shape[1]], observation)  # vision comes first in it
        return whole, [everything[:, width + number] for number in range(len(losses))]

    def whole_rows(self, own: Tensor) -> Tensor:
        """Values of the whole mini-batch, whose own rows are the last dimension; without gradients."""
        parts = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts, dim=-1)

    def shard(self, count: int, device: torch.device) -> Shard:
        """The rows of ``count`` that this process measures and keeps the embeddings of.

        Args:
            count: of all rows.
            device: of this process.
        """
        if self.is_alone:
            return WHOLE
        return Shard.of_rank(count, self.rank, self.size, device if device.type == "cuda" else None)

    def assemble(
        self, own: Measurements | None, rows: slice, count: int, policy: DiffusionPolicy
    ) -> Measurements:
        """What all processes have measured.

        Args:
            own: of ``rows``; None where there are none.
            rows: what this process has measured.
            count: of all rows.
            policy: that was measured with.
        """
        width = policy.condition_dim
        table = torch.zeros(count, width + 1, device=policy.device)
        if own is not None:
            table[rows, :width] = own.observation
            table[rows, width] = own.losses
        dist.all_reduce(table)  # every row is one process's, and zero in the others
        observation = table[:, :width].contiguous()
        return Measurements(
            table[:, width].contiguous(), observation[:, : policy.vision_dim].contiguous(), observation
        )


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Take this process's place among those that torchrun or ``beacon train --processes`` has started.

    Args:
        device: of the run's options; decides how processes talk, NCCL between GPUs and gloo otherwise.
    """
    size = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if size < 2:
        yield Ranks()
        return
    rank = int(os.environ["RANK"])
    ranks = Ranks(rank, size, int(os.environ.get("LOCAL_RANK", rank)))
    # Its functions take the group that there is when they are imported, as DistributedDataParallel does, as
    # their default. They would keep it, and its threads, until the interpreter ends, which may abort then.
    import_module("torch.distributed.nn")
    backend = "nccl" if ranks.device(device).type == "cuda" else "gloo"
    meeting = os.environ.get(RENDEZVOUS, "env://")
    dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield ranks
        gc.collect()  # DistributedDataParallel has the group, too; the last who has it ends its threads
    except RuntimeError as error:
        if not _is_broken_connection(error):
            raise
        raise RunError(
            "another process of the run has ended; --resume goes on from the last checkpoint"
        ) from None
    finally:
        if dist.is_initialized():
            with suppress(RuntimeError):  # the run is done or has failed, whether others still answer or not
                dist.destroy_process_group()


def _is_broken_connection(error: RuntimeError) -> bool:
    words = ("Connection", "connection", "gloo", "NCCL", "Socket")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)
