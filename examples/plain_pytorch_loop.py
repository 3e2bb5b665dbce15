"""BEACON's reweighting in a plain PyTorch loop: the three lines that it adds are marked with <--.

Ten samples of the target function are known, and a thousand from a source that looks a little different
and whose outputs are mirrored for three samples in ten. Run: python examples/plain_pytorch_loop.py
"""

import torch
from torch import nn

from beacon import Reweighter

SOURCE, TARGET, EPOCHS, BATCH = 1000, 10, 40, 64


def make_data(count: int, mirrored: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (count, 2), a position and a noisy mark of the mirrored ones, and outputs (count, 1)."""
    position = torch.rand(count, 1, generator=generator) * 6 - 3
    bad = (torch.arange(count) < mirrored).float()[:, None]
    mark = 0.5 * bad + 0.5 * torch.randn(count, 1, generator=generator)
    return torch.cat([position, mark], 1), torch.sin(2 * position) * (1 - 2 * bad)


def train(method: str, seed: int) -> float:
    """Mean squared error on the target function after training by this method."""
    generator = torch.Generator().manual_seed(seed)
    source, target = make_data(SOURCE, 300, generator), make_data(TARGET, 0, generator)
    inputs, outputs = torch.cat([source[0], target[0]]), torch.cat([source[1], target[1]])
    domains = ["sim"] * SOURCE + ["real"] * TARGET
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(2, 64), nn.Tanh())
    model = nn.Sequential(encoder, nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-6)
    rw = Reweighter(domains=domains, target="real", planned_refreshes=EPOCHS)  # <--
    for _ in range(EPOCHS):
        if method == "beacon":
            with torch.no_grad():
                losses = (model(inputs) - outputs).square().mean(1)
                rw.refresh(losses=losses, embeddings=encoder(inputs))  # <--
            optimizer.param_groups[0]["weight_decay"] = rw.weight_decay
        order = torch.randperm(len(inputs), generator=generator)
        if method == "target-only":
            order = SOURCE + order % TARGET
        for index in order.split(BATCH):
            loss = (model(inputs[index]) - outputs[index]).square().mean(1)
            if method == "beacon":
                loss = rw[index] * loss  # <--
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
    test_inputs, test_outputs = make_data(2000, 0, generator)
    with torch.no_grad():
        return float((model(test_inputs) - test_outputs).square().mean())


if __name__ == "__main__":
    for method in ("target-only", "uniform", "beacon"):
        errors = [train(method, seed) for seed in range(5)]
        print(
            f"{method:12s} target error {sum(errors) / 5:.3f}, by seed", *(f"{error:.3f}" for error in errors)
        )
