"""Layers over short sequences in (batch, time, channels) layout, quick on CPU.

``Conv1d`` over chunks of 4 to 16 actions reaches a third to a half of a CPU's matrix-multiplication rate.
With channels last, the windows of a convolution are contiguous rows of memory: gathering them is a plain
copy, and the convolution is one matrix product that runs at 80 to 95% of that rate. With AVX512 a convolution
over images of one row, channels last, is quicker still, unless it is so small that calling it costs more.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def _windows(x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Every window of a zero-padded sequence, flattened: (B, T, C) -> (B, T', kernel * C)."""
    batch, steps, channels = x.shape
    padded = x.new_zeros(batch, steps + 2 * padding, channels)
    padded[:, padding : padding + steps] = x
    count = (steps + 2 * padding - kernel) // stride + 1
    view = padded.as_strided(
        (batch, count, kernel * channels), ((steps + 2 * padding) * channels, stride * channels, 1)
    )
    return view.contiguous()


def _overlap_add(windows: Tensor, steps: int, kernel: int, stride: int, padding: int) -> Tensor:
    """The adjoint of ``_windows``: (B, T', kernel * C) -> (B, steps, C)."""
    batch, count, width = windows.shape
    taps = windows.view(batch, count, kernel, width // kernel)
    out = windows.new_zeros(batch, steps, width // kernel)
    for tap in range(kernel):
        # Window t puts this tap at step stride * t + tap - padding; keep the t for which that step exists.
        first = max(0, math.ceil((padding - tap) / stride))
        last = min(count - 1, (steps - 1 + padding - tap) // stride)
        if first <= last:
            start = stride * first + tap - padding
            stop = stride * last + tap - padding + 1
            out[:, start:stop:stride] += taps[:, first : last + 1, tap]
    return out


class _Windows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
        ctx.geometry = (x.shape[1], kernel, stride, padding)
        return _windows(x, kernel, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        grad_x = _OverlapAdd.apply(grad.contiguous(), *ctx.geometry)  # type: ignore[no-untyped-call]
        return grad_x, None, None, None


class _OverlapAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, windows: Tensor, steps: int, kernel: int, stride: int, padding: int) -> Tensor:
        ctx.geometry = (kernel, stride, padding)
        return _overlap_add(windows, steps, kernel, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Windows.apply(grad, *ctx.geometry), None, None, None, None  # type: ignore[no-untyped-call]


def _as_matrix_product(x: Tensor) -> bool:
    # GPUs have good short convolutions, and a compiler wants to see a convolution as one.
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _as_image(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether a convolution over images of one row is quicker than a matrix product.

    It takes 0.6 to 0.9 times as long from a million multiplications on; with strides, and without AVX512, up
    to 1.3 times.
    """
    outputs, inputs, kernel = weight.shape
    products = x.shape[0] * x.shape[1] * outputs * inputs * kernel
    return _HAS_AVX512 and kernel > 1 and stride == 1 and products > 2**20


_HAS_AVX512 = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _taps_outside(weight: Tensor) -> nn.Parameter:
    """A convolution weight (M, N, kernel), in memory as (M, kernel, N) so that its matrix is a view."""
    return nn.Parameter(weight.detach().permute(0, 2, 1).contiguous().permute(0, 2, 1))


def _matrix(weight: Tensor) -> Tensor:
    return weight.permute(0, 2, 1).reshape(weight.shape[0], -1)  # (M, kernel * N)


class ShortConv1d(nn.Conv1d):
    """``nn.Conv1d`` with its parameters and initialisation, for (B, T, C) instead of (B, C, T).

    On CPU: y_t = W [x_{st-p}; ...; x_{st-p+k-1}] + b as one matrix product over gathered windows.

    >>> ShortConv1d(8, 12, 5, padding=2)(torch.zeros(3, 16, 8)).shape
    torch.Size([3, 16, 12])
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding)
        self.weight = _taps_outside(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C_in) -> (B, T', C_out)."""
        kernel, stride, padding = self.kernel_size[0], self.stride[0], int(self.padding[0])
        if not _as_matrix_product(x):
            return F.conv1d(x.transpose(1, 2), self.weight, self.bias, stride, padding).transpose(1, 2)
        if _as_image(x, self.weight, stride):
            image, filters = x.transpose(1, 2).unsqueeze(2), self.weight.unsqueeze(2)
            return F.conv2d(image, filters, self.bias, padding=(0, padding)).squeeze(2).transpose(1, 2)
        if kernel > 1 or stride > 1 or padding:
            # Without a gradient to pass on, the plain function: a third of the time of a small layer.
            tracked = x.requires_grad and torch.is_grad_enabled()
            x = (_Windows.apply if tracked else _windows)(x, kernel, stride, padding)
        return F.linear(x, _matrix(self.weight), self.bias)


class ShortConvTranspose1d(nn.ConvTranspose1d):
    """``nn.ConvTranspose1d`` with its parameters and initialisation, for (B, T, C) instead of (B, C, T)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding)
        self.weight = _taps_outside(self.weight)

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """(B, T, C_in) -> (B, T', C_out)."""
        kernel, stride, padding = self.kernel_size[0], self.stride[0], int(self.padding[0])
        if not _as_matrix_product(x):
            return F.conv_transpose1d(x.transpose(1, 2), self.weight, self.bias, stride, padding).transpose(
                1, 2
            )
        steps = (x.shape[1] - 1) * stride - 2 * padding + kernel
        taps = x @ _matrix(self.weight)  # (B, T, kernel * C_out)
        y: Tensor = _OverlapAdd.apply(taps, steps, kernel, stride, padding)  # type: ignore[no-untyped-call]
        return y if self.bias is None else y + self.bias


class SequenceGroupNorm(nn.GroupNorm):
    """``nn.GroupNorm`` for (B, T, C): each group of channels is normalised over its channels and time."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        image = x.transpose(1, 2).unsqueeze(-1)  # (B, C, T, 1), which is channels_last in memory
        y = F.group_norm(image, self.num_groups, self.weight, self.bias, self.eps)
        return y.squeeze(-1).transpose(1, 2)


class _Mish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        e, s, t = _mish_parts(x)
        slope = torch.addcmul(e, e, e).mul_(s).mul_(s).mul_(x)  # x e (1 + e) / (n + 2)^2
        ctx.save_for_backward(torch.add(t, slope, alpha=4))
        return x * t

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return grad * slope  # type: ignore[no-any-return]


def _mish_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With e = exp(x): e, s = 1 / (n + 2) and t = tanh(softplus(x)) = n / (n + 2), where n = e (e + 2)."""
    e = x.clamp(max=20).exp_()  # mish(x) = x to the last bit above 20, and e^2 must not overflow
    n = torch.add(e, 2).mul_(e)
    s = torch.add(n, 2).reciprocal_()
    return e, s, n.mul_(s)


def mish(x: Tensor) -> Tensor:
    """Mish, x tanh(log(1 + exp(x))) (Misra 2020), by one exponential: thrice as fast as ``F.mish`` on CPU."""
    small = x.numel() < 4096  # below, a dozen calls cost more than their arithmetic saves
    if small or x.device.type != "cpu" or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return F.mish(x)
    if torch.is_grad_enabled() and x.requires_grad:
        return _Mish.apply(x)  # type: ignore[no-any-return, no-untyped-call]
    return _mish_parts(x)[2].mul_(x)
