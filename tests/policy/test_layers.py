"""The quick layers are torch's own, in another layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from beacon.policy.layers import SequenceGroupNorm, ShortConv1d, ShortConvTranspose1d, mish

CONVOLUTIONS = [  # inputs, outputs, kernel, stride, padding, steps
    (7, 16, 5, 1, 2, 16),
    (16, 16, 3, 2, 1, 8),
    (16, 8, 1, 1, 0, 4),
    (5, 6, 3, 2, 1, 7),
    (256, 256, 5, 1, 2, 4),
    (3, 4, 7, 3, 1, 11),
    (3, 4, 5, 1, 2, 1),  # a kernel longer than the sequence
]


def gradients(
    module: nn.Module, x: torch.Tensor, channels_last: bool, out_grad: torch.Tensor
) -> list[torch.Tensor]:
    """Output and gradients of input, weight and bias, all with channels in the second place."""
    x = (x.transpose(1, 2) if channels_last else x).contiguous().detach().requires_grad_()
    y = module(x)
    y.backward(out_grad.transpose(1, 2) if channels_last else out_grad)
    x_grad = x.grad
    assert x_grad is not None
    if channels_last:
        y, x_grad = y.transpose(1, 2), x_grad.transpose(1, 2)
    return [y.detach(), x_grad, *(p.grad for p in module.parameters() if p.grad is not None)]


@pytest.mark.parametrize("inputs, outputs, kernel, stride, padding, steps", CONVOLUTIONS)
def test_short_convolution_is_conv1d(
    inputs: int, outputs: int, kernel: int, stride: int, padding: int, steps: int
) -> None:
    torch.manual_seed(0)
    ours = ShortConv1d(inputs, outputs, kernel, stride=stride, padding=padding)
    theirs = nn.Conv1d(inputs, outputs, kernel, stride=stride, padding=padding)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(3, inputs, steps)
    out_grad = torch.randn_like(theirs(x).detach())
    expected = gradients(theirs, x, False, out_grad)
    for got, want in zip(gradients(ours, x, True, out_grad), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(ours(x.transpose(1, 2)).transpose(1, 2), expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel, stride, padding", [(4, 2, 1), (3, 1, 1), (5, 3, 0)])
def test_short_transposed_convolution_is_conv_transpose1d(kernel: int, stride: int, padding: int) -> None:
    torch.manual_seed(0)
    ours = ShortConvTranspose1d(6, 5, kernel, stride=stride, padding=padding)
    theirs = nn.ConvTranspose1d(6, 5, kernel, stride=stride, padding=padding)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(3, 6, 4)
    out_grad = torch.randn_like(theirs(x).detach())
    expected = gradients(theirs, x, False, out_grad)
    for got, want in zip(gradients(ours, x, True, out_grad), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_first_and_second_derivatives_of_the_windows() -> None:
    torch.manual_seed(0)
    down = ShortConv1d(2, 3, 3, stride=2, padding=1).double()
    up = ShortConvTranspose1d(3, 2, 4, stride=2, padding=1).double()
    x = torch.randn(2, 6, 2, dtype=torch.float64, requires_grad=True)

    def both(x: torch.Tensor) -> torch.Tensor:
        return up(torch.sin(down(x)))

    assert torch.autograd.gradcheck(both, (x,))
    assert torch.autograd.gradgradcheck(both, (x,))


def test_matrices_are_views_so_that_no_step_copies_weights() -> None:
    conv = ShortConv1d(8, 6, 5, padding=2)
    assert conv.weight.permute(0, 2, 1).is_contiguous()
    conv(torch.randn(2, 4, 8)).sum().backward()
    assert conv.weight.grad is not None
    assert conv.weight.grad.stride() == conv.weight.stride()


def test_parameters_start_as_torch_starts_them() -> None:
    torch.manual_seed(3)
    ours = ShortConv1d(8, 6, 5, padding=2)
    torch.manual_seed(3)
    theirs = nn.Conv1d(8, 6, 5, padding=2)
    assert torch.equal(ours.weight, theirs.weight)
    assert ours.bias is not None and theirs.bias is not None and torch.equal(ours.bias, theirs.bias)


def test_group_norm_over_time() -> None:
    torch.manual_seed(0)
    norm = SequenceGroupNorm(4, 16)
    nn.init.normal_(norm.weight)
    x = torch.randn(3, 7, 16)
    want = F.group_norm(x.transpose(1, 2), 4, norm.weight, norm.bias).transpose(1, 2)
    torch.testing.assert_close(norm(x), want)


@pytest.mark.parametrize("repeats", [1, 100], ids=["small", "large"])
def test_mish_and_its_gradient(repeats: int) -> None:
    points = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([-1e4, -88.0, 0.0, 88.0, 1e4])])
    x = points.repeat(repeats).requires_grad_()
    exact = points.double().requires_grad_()
    want = F.mish(exact)
    want.sum().backward()
    got = mish(x)
    got.sum().backward()
    assert x.grad is not None and exact.grad is not None
    for value in (got, mish(x.detach())):
        torch.testing.assert_close(value.view(repeats, -1)[0].double(), want, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(x.grad.view(repeats, -1)[0].double(), exact.grad, rtol=1e-5, atol=1e-6)
