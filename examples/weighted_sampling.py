"""BEACON's weights as sampling probabilities, with `torch.utils.data.WeightedRandomSampler`.

A sample is drawn as often as it weighs, and losses stay as they are: the same expected gradient as weighting
the losses, and samples of weight zero cost nothing. The sampler holds a copy of the weights: build it again
after every refresh.

Run: python examples/weighted_sampling.py
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from beacon import Reweighter

SOURCE, TARGET, EPOCHS, BATCH = 200, 20, 10, 32


def weighted_loader(
    rw: Reweighter, data: Dataset[tuple[torch.Tensor, ...]], batch_size: int, generator: torch.Generator
) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Mini-batches of one epoch, drawn by the present weights."""
    sampler = WeightedRandomSampler(rw.weights.tolist(), num_samples=len(rw), generator=generator)
    return DataLoader(data, batch_size=batch_size, sampler=sampler)


def train(seed: int) -> tuple[nn.Linear, Reweighter]:
    """A line through few target samples and many of a source, half of which has another slope."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(SOURCE + TARGET, 1, generator=generator)
    wrong = torch.arange(SOURCE + TARGET) < SOURCE // 2
    outputs = torch.where(wrong[:, None], -inputs, inputs)
    rw = Reweighter(domains=["sim"] * SOURCE + ["real"] * TARGET, target="real", planned_refreshes=EPOCHS)
    torch.manual_seed(seed)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        with torch.no_grad():
            losses = (model(inputs) - outputs).square().mean(1)
        rw.refresh(losses=losses, embeddings=torch.cat([inputs, outputs], 1))
        for batch_inputs, batch_outputs in weighted_loader(
            rw, TensorDataset(inputs, outputs), BATCH, generator
        ):
            loss = (model(batch_inputs) - batch_outputs).square().mean()  # no weights here
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model, rw


if __name__ == "__main__":
    model, rw = train(seed=0)
    print(f"slope {model.weight.item():.2f} where 1 is right and -1 is half of the source's; {rw}")
