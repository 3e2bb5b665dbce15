"""The U-Net against a second, plain implementation; several draws against separate evaluations."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from beacon.policy import PolicyConfig
from beacon.policy.denoiser import MlpDenoiser, UNet, step_embedding
from beacon.policy.presets import VARIANTS, preset_policy
from beacon.training.config import preset_config
from beacon.training.optimization import make_optimizer


def plain_unet(
    w: dict[str, Tensor], x: Tensor, t: Tensor, condition: Tensor, levels: int, groups: int, step_dim: int
) -> Tensor:
    """The public ConditionalUnet1D written out, in (N, C, T) layout with F.conv1d: x (N, A, T), t (N,)."""
    half = step_dim // 2
    frequencies = torch.tensor([10_000 ** (-i / (half - 1)) for i in range(half)])
    angles = t[:, None].float() * frequencies[None]
    e = torch.cat([angles.sin(), angles.cos()], 1)
    e = F.linear(e, w["film.hidden.weight"], w["film.hidden.bias"])
    e = F.linear(F.mish(e), w["film.output.weight"], w["film.output.bias"])
    both = F.mish(torch.cat([e, condition], 1))
    film = (
        F.linear(both, torch.cat([w["film.from_step.weight"], w["film.from_condition.weight"]], 1))
        + w["film.from_condition.bias"]
    )
    used = 0

    def conv_block(x: Tensor, name: str) -> Tensor:
        weight = w[f"{name}.conv.weight"]
        x = F.conv1d(x, weight, w[f"{name}.conv.bias"], padding=weight.shape[2] // 2)
        return F.mish(F.group_norm(x, groups, w[f"{name}.norm.weight"], w[f"{name}.norm.bias"]))

    def residual(x: Tensor, name: str) -> Tensor:
        nonlocal used
        width = w[f"{name}.first.conv.weight"].shape[0]
        scale, shift = film[:, used : used + width], film[:, used + width : used + 2 * width]
        used += 2 * width
        y = conv_block(x, f"{name}.first") * scale[:, :, None] + shift[:, :, None]
        y = conv_block(y, f"{name}.second")
        if f"{name}.shortcut.weight" in w:
            x = F.conv1d(x, w[f"{name}.shortcut.weight"], w[f"{name}.shortcut.bias"])
        return x + y

    skips = []
    for level in range(levels):
        x = residual(residual(x, f"down.{level}.0"), f"down.{level}.1")
        skips.append(x)
        if level < levels - 1:
            name = f"downsample.{level}"
            x = F.conv1d(x, w[f"{name}.weight"], w[f"{name}.bias"], stride=2, padding=1)
    x = residual(residual(x, "middle.0"), "middle.1")
    for level in range(levels - 1):
        x = torch.cat([x, skips[levels - 1 - level]], 1)
        x = residual(residual(x, f"up.{level}.0"), f"up.{level}.1")
        name = f"upsample.{level}"
        x = F.conv_transpose1d(x, w[f"{name}.weight"], w[f"{name}.bias"], stride=2, padding=1)
    assert used == film.shape[1]
    return F.conv1d(conv_block(x, "last"), w["output.weight"], w["output.bias"])


@pytest.mark.parametrize("channels", [(16,), (16, 24), (16, 24, 40)])
def test_unet_is_the_public_one(channels: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    config = PolicyConfig(channels=channels, step_dim=12, groups=4)
    unet = UNet(5, 9, config)
    draws, batch = 3, 4
    x = torch.randn(draws, batch, 16, 5)
    t = torch.randint(100, (draws, batch))
    condition = torch.randn(batch, 9)
    got = unet(x, t, unet.project(condition))
    weights = dict(unet.named_parameters())
    want = plain_unet(
        weights,
        x.flatten(0, 1).transpose(1, 2),
        t.flatten(),
        condition.repeat(draws, 1),
        len(channels),
        groups=4,
        step_dim=12,
    ).transpose(1, 2)
    torch.testing.assert_close(got, want.reshape(got.shape), rtol=1e-4, atol=1e-5)

    names, parameters = zip(*weights.items(), strict=True)
    ours = torch.autograd.grad(got.square().sum(), parameters)
    theirs = torch.autograd.grad(want.square().sum(), parameters)
    for name, a, b in zip(names, ours, theirs, strict=True):
        scale = b.abs().max().item()
        torch.testing.assert_close(
            a, b, rtol=1e-3, atol=1e-4 * max(scale, 1), msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(
    ("variant", "channels", "step_dim", "count"),
    [
        ("robomimic", (256, 512, 1024), 256, 67_311_879),
        ("diffusion-policy", (512, 1024, 2048), 128, 251_931_271),
    ],
)
def test_paper_unet_has_the_public_number_of_parameters(
    variant: str, channels: tuple[int, int, int], step_dim: int, count: int
) -> None:
    """Counted from the two public architectures: 7 actions, condition 146, kernel 5."""
    with torch.device("meta"):
        unet = UNet(7, 146, preset_policy("paper", variant))
    first, second, third = channels

    def residual(i: int, o: int) -> int:
        convs = (i * 5 + 1) * o + (o * 5 + 1) * o + 4 * o  # two convolutions, two norms
        film = (step_dim + 146 + 1) * 2 * o
        return convs + film + (0 if i == o else (i + 1) * o)

    want = (step_dim + 1) * 4 * step_dim + (4 * step_dim + 1) * step_dim
    for i, o in [(7, first), (first, first), (first, second), (second, second), (second, third)]:
        want += residual(i, o)
    want += 3 * residual(third, third)
    for i, o in [(2 * third, second), (second, second), (2 * second, first), (first, first)]:
        want += residual(i, o)
    want += sum((width * taps + 1) * width for width in (first, second) for taps in (3, 4))  # down and up
    want += (first * 5 + 1) * first + 2 * first + (first + 1) * 7
    assert sum(p.numel() for p in unet.parameters()) == want == count


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_step_of_the_papers_sizes(variant: str) -> None:
    """At full size; only biases and norms are trained, so that it fits into a small machine."""
    policy, optimization = preset_config("paper", variant)
    unet = UNet(7, 146, policy)
    for parameter in unet.parameters():
        parameter.requires_grad_(parameter.ndim == 1)
    trained = [parameter for parameter in unet.parameters() if parameter.requires_grad]
    optimizer = make_optimizer(trained, optimization)
    assert optimizer.param_groups[0]["betas"] == optimization.betas
    generator = torch.Generator().manual_seed(0)
    chunk, condition = (torch.randn(shape, generator=generator) for shape in ((1, 2, 16, 7), (2, 146)))
    before = [parameter.detach().clone() for parameter in trained]
    loss = unet(chunk, torch.tensor([[3, 80]]), unet.project(condition)).square().mean()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    # Adam's first step has the size of the learning rate wherever there is a gradient.
    largest = max(float((a - b.detach()).abs().max()) for a, b in zip(before, trained, strict=True))
    assert largest == pytest.approx(optimization.learning_rate, rel=0.05)


@pytest.mark.parametrize("kind", [UNet, MlpDenoiser])
def test_several_draws_are_separate_evaluations(kind: type[UNet] | type[MlpDenoiser]) -> None:
    torch.manual_seed(0)
    denoiser = kind(3, 6, PolicyConfig(channels=(16, 24), step_dim=12, mlp_width=32))
    x, t, condition = torch.randn(4, 5, 16, 3), torch.randint(100, (4, 5)), torch.randn(5, 6)
    together = denoiser(x, t, denoiser.project(condition))
    for d in range(4):
        for b in range(5):
            alone = denoiser(x[d, b][None, None], t[d, b][None, None], denoiser.project(condition[b : b + 1]))
            torch.testing.assert_close(together[d, b], alone[0, 0], rtol=1e-4, atol=1e-5)


def test_one_timestep_for_all_samples() -> None:
    torch.manual_seed(0)
    unet = UNet(3, 6, PolicyConfig(channels=(16,), step_dim=12))
    x, projected = torch.randn(2, 5, 16, 3), unet.project(torch.randn(5, 6))
    t = torch.tensor([[3], [70]])
    torch.testing.assert_close(unet(x, t, projected), unet(x, t.expand(2, 5), projected))


def test_step_embedding() -> None:
    got = step_embedding(torch.tensor([0, 7]), 8)
    for i in range(4):
        angle = 7 * 10_000 ** (-i / 3)
        assert got[1, i] == pytest.approx(math.sin(angle), abs=1e-6)
        assert got[1, 4 + i] == pytest.approx(math.cos(angle), abs=1e-6)
    assert got[0].tolist() == [0] * 4 + [1] * 4
