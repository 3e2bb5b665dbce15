"""BEACON's weights in data-parallel training: every process computes the losses of its own slice.

Losses are gathered; embeddings stay where they were computed, because the `Reweighter` is told which samples
this process has (`Shard`). All processes end with the same weights. Each weights its part of a mini-batch,
and `DistributedDataParallel` averages the gradients.

A group of processes has threads, which end when the last object that has the group is gone. A thread that is
left when the interpreter ends may abort the process. So two things are needed: `torch.distributed.nn` is
imported before there is a group, because its functions keep the one that they find; and
`DistributedDataParallel` is gone before the group is destroyed, here when `train` returns.

Run: torchrun --nproc-per-node 2 examples/distributed_training.py
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, see above
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from beacon import Reweighter
from beacon.weighting import Shard

SOURCE, TARGET, EPOCHS, BATCH = 60, 12, 4, 24


def own_slice(size: int) -> slice:
    """The consecutive samples that this process is responsible for; all have equally many."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if size % world:
        raise ValueError(f"{size} samples cannot be shared evenly by {world} processes")
    return slice(rank * size // world, (rank + 1) * size // world)


def train(seed: int) -> tuple[nn.Module, Reweighter]:
    """Train in an initialised process group; model and weights end the same in every process."""
    generator = torch.Generator().manual_seed(seed)  # the same data and the same order everywhere
    inputs = torch.randn(SOURCE + TARGET, 3, generator=generator)
    outputs = inputs.mean(1, keepdim=True)
    domains = ["sim"] * SOURCE + ["real"] * TARGET
    shard = Shard.of_group(len(domains))
    rw = Reweighter(domains, target="real", planned_refreshes=EPOCHS, shard=shard)
    torch.manual_seed(seed)
    encoder, head = nn.Linear(3, 8), nn.Linear(8, 1)
    model = DistributedDataParallel(nn.Sequential(encoder, nn.Tanh(), head))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    own = shard.rows
    for _ in range(EPOCHS):
        with torch.no_grad():
            losses = (model(inputs[own]) - outputs[own]).square().mean(1)
            features = encoder(inputs[own])
        rw.refresh(losses=shard.gather(losses), embeddings=features)
        for batch in torch.randperm(len(rw), generator=generator).split(BATCH):
            index = batch[own_slice(len(batch))]
            loss = (rw[index] * (model(inputs[index]) - outputs[index]).square().mean(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.module, rw


def work(rank: int, world: int, meeting_point: str, results: str) -> None:
    """One process of a group that meets in a file; it leaves its model and weights in another."""
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=world)
    model, rw = train(seed=0)
    torch.save({"model": model.state_dict(), "weights": rw.state_dict()}, f"{results}.{rank}")
    dist.barrier()  # nobody leaves while another still talks
    dist.destroy_process_group()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    _, reweighter = train(seed=0)
    print(f"process {os.environ['RANK']}: {reweighter}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
