"""ResNet-18 with GroupNorm, and torchvision's parameter names so that its weights load."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from beacon.errors import UserError

# Larger tensors come from fresh pages of the system each time (glibc never reuses blocks above 32 MB), and
# touching those costs more than the arithmetic on them. So on CPU the first layers see few images at a time.
_STEM_ELEMENTS = 2**22


def _norm(channels: int, group_channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(max(1, channels // group_channels), channels)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int, group_channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = _norm(outputs, group_channels)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = _norm(outputs, group_channels)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), _norm(outputs, group_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, h, w) -> (N, C', h', w')."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = F.relu_(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu_(y.add_(shortcut))


class ResNet18(nn.Module):
    """The convolutional part of ResNet-18, any widths, with an output stride of 4, 8, 16 or 32."""

    def __init__(
        self,
        widths: tuple[int, int, int, int] = (64, 128, 256, 512),
        *,
        channels: int = 3,
        output_stride: int = 32,
        group_channels: int = 16,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = _norm(widths[0], group_channels)
        inputs, reached = widths[0], 4
        for number, width in enumerate(widths, start=1):
            stride = 2 if number > 1 and reached < output_stride else 1
            reached *= stride
            stage = nn.Sequential(
                BasicBlock(inputs, width, stride, group_channels), BasicBlock(width, width, 1, group_channels)
            )
            self.add_module(f"layer{number}", stage)
            inputs = width
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images (N, C, H, W) -> feature maps (N, widths[3], ~H / stride, ~W / stride)."""
        images = len(x)
        per_image = self.conv1.out_channels * x.shape[2] * x.shape[3] // 4
        few = max(1, _STEM_ELEMENTS // per_image)
        if x.device.type == "cpu" and images > few and not torch.compiler.is_compiling():
            x = torch.cat([self._stem(part) for part in torch.split(x, few)])
        else:
            x = self._stem(x)
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        return x

    def _stem(self, x: Tensor) -> Tensor:
        # The maximum and ReLU commute, and after pooling there is a quarter as much to rectify.
        return F.relu_(F.max_pool2d(self.bn1(self.conv1(x)), 3, stride=2, padding=1))


def load_resnet_weights(network: ResNet18, path: str | Path) -> None:
    """Load torchvision's ``resnet18`` weights, saved as safetensors, into a network of the same widths.

    The affine weights of BatchNorm serve GroupNorm; its running statistics and the classifier are dropped.
    They were trained on colours as they are, so the encoder should not whiten them.
    """
    path = Path(path)
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable safetensors file ({error})") from error
    unused = ("running_mean", "running_var", "num_batches_tracked")
    weights = {
        name: value
        for name, value in tensors.items()
        if name.rsplit(".", 1)[-1] not in unused and not name.startswith("fc.")
    }
    wanted = network.state_dict()
    if missing := sorted(set(wanted) - set(weights)):
        raise UserError(
            f"{path}: not the weights of a ResNet-18; {len(missing)} are missing, such as {missing[0]}"
        )
    if unknown := sorted(set(weights) - set(wanted)):
        raise UserError(f"{path}: holds {unknown[0]}, which this encoder does not have")
    for name, value in wanted.items():
        if weights[name].shape != value.shape:
            raise UserError(
                f"{path}: {name} is {tuple(weights[name].shape)}, the encoder's is {tuple(value.shape)} "
                "(torchvision's weights fit widths 64/128/256/512 and three image channels)"
            )
    network.load_state_dict(weights)
