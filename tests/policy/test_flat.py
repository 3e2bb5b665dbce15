"""Parameters in one vector are the same parameters."""

from __future__ import annotations

import torch
from torch import nn

from beacon.policy import FlatParameters
from beacon.policy.layers import ShortConv1d


def network() -> nn.Sequential:
    """With parameters of several layouts in memory."""
    torch.manual_seed(0)
    image = nn.Conv2d(2, 3, 3)
    image.weight = nn.Parameter(image.weight.detach().contiguous(memory_format=torch.channels_last))
    return nn.Sequential(ShortConv1d(4, 6, 3, padding=1), nn.Linear(6, 2), image)


def test_values_and_layouts_stay() -> None:
    plain, model = network(), network()
    flat = FlatParameters(model)
    assert flat.names == [name for name, _ in plain.named_parameters()]
    assert len(flat.values) == sum(p.numel() for p in plain.parameters())
    for before, after in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(before, after) and before.stride() == after.stride()
    with torch.no_grad():
        flat.values.mul_(2)
    for before, after in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(2 * before, after)


def test_one_step_is_that_of_every_parameter() -> None:
    plain, model = network(), network()
    flat = FlatParameters(model)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.1, fused=True)
    ours = torch.optim.AdamW([flat.values], lr=0.1, fused=True)
    x = torch.randn(2, 5, 4)
    for _ in range(3):
        for part, optimizer in ((plain, theirs), (model, ours)):
            theirs.zero_grad()
            part[:2](x).square().sum().backward()
            if part is model:
                flat.take_gradients()
            optimizer.step()
    for before, after in zip(plain[:2].parameters(), model[:2].parameters(), strict=True):
        torch.testing.assert_close(before, after)
    assert all(p.grad is None for p in model.parameters())


def test_no_gradient_counts_as_zero() -> None:
    model = network()
    flat = FlatParameters(model)
    for part in (model, model[1:2]):
        for parameter in part.parameters():
            parameter.grad = torch.ones_like(parameter)
        flat.take_gradients()
    assert flat.values.grad is not None
    named = flat.views(flat.values.grad)
    assert all(bool((named[name] == float(name.startswith("1."))).all()) for name in flat.names)
