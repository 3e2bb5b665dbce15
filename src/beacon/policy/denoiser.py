"""Networks that predict the noise in a chunk of actions: a 1-D U-Net, or an MLP.

Both know the diffusion step and the observation through FiLM: each block scales and shifts its channels by a
linear function of both (Perez et al. 2018). That function splits, W [step; condition] = W_s step +
W_c condition, so the condition's part is computed once per sample, however many draws or denoising steps
share it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from beacon.policy.config import PolicyConfig
from beacon.policy.layers import SequenceGroupNorm, ShortConv1d, ShortConvTranspose1d, mish


def step_embedding(timesteps: Tensor, size: int) -> Tensor:
    """Sines and cosines of each timestep at ``size / 2`` geometric frequencies: (...) -> (..., size)."""
    half = size // 2
    exponents = torch.arange(half, device=timesteps.device) * (-math.log(10_000) / (half - 1))
    angles = timesteps.unsqueeze(-1).float() * exponents.exp()
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class FilmConditioning(nn.Module):
    """Scales and shifts of all blocks of a denoiser, from diffusion step and condition."""

    def __init__(self, step_dim: int, condition_dim: int, widths: list[int]) -> None:
        super().__init__()
        self.step_dim, self.widths = step_dim, widths
        self.hidden = nn.Linear(step_dim, 4 * step_dim)
        self.output = nn.Linear(4 * step_dim, step_dim)
        self.from_step = nn.Linear(step_dim, 2 * sum(widths), bias=False)
        self.from_condition = nn.Linear(condition_dim, 2 * sum(widths))
        # The two are one linear layer over [step; condition]; initialise them as that layer would be.
        bound = 1 / math.sqrt(step_dim + condition_dim)
        for parameter in (self.from_step.weight, self.from_condition.weight, self.from_condition.bias):
            nn.init.uniform_(parameter, -bound, bound)

    def project(self, condition: Tensor) -> Tensor:
        """The condition's part of all scales and shifts: (B, C) -> (B, F)."""
        projected: Tensor = self.from_condition(mish(condition))
        return projected

    def project_steps(self, timesteps: Tensor) -> Tensor:
        """The diffusion step's part of all scales and shifts: (D, B) or (D, 1) -> (D, B or 1, F)."""
        waves = step_embedding(timesteps, self.step_dim).to(self.hidden.weight.dtype)
        embedding = self.output(mish(self.hidden(waves)))
        projected: Tensor = self.from_step(mish(embedding))
        return projected

    def forward(self, timesteps: Tensor, projected: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Timesteps (D, B) or (D, 1), projected (B, F) -> scale, shift (D * B, 1, width) of every block."""
        return self.join(self.project_steps(timesteps), projected)

    def join(self, steps: Tensor, projected: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What `project_steps` and `project` gave -> scale, shift (D * B, 1, width) of every block."""
        film = (steps + projected).flatten(0, 1).unsqueeze(1)  # (D * B, 1, F)
        parts = film.split([width for width in self.widths for _ in range(2)], dim=-1)
        return list(zip(parts[::2], parts[1::2], strict=True))


class Denoiser(nn.Module):
    """What a denoiser offers: ``project`` a condition once, then call it for any number of noisy chunks."""

    film: FilmConditioning

    @property
    def last_layers(self) -> tuple[nn.Module, ...]:
        """The layers after the last FiLM, in order: each takes what the one before it gives."""
        raise NotImplementedError

    def project(self, condition: Tensor) -> Tensor:
        """The part of the computation that depends on the condition alone: (B, C) -> (B, F)."""
        return self.film.project(condition)

    def forward(self, noisy: Tensor, timesteps: Tensor, projected: Tensor) -> Tensor:
        """Noisy chunks (D, B, T, A), timesteps (D, B) or (D, 1) and ``project``'s output -> (D, B, T, A)."""
        film = self.film(timesteps, projected)
        return self.denoise(noisy.flatten(0, 1), film).view(noisy.shape)

    def denoise(self, noisy: Tensor, film: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(N, T, A) and per block a scale and a shift, (N, 1, width) -> (N, T, A)."""
        raise NotImplementedError


class ConvBlock(nn.Module):
    """Convolution over time, GroupNorm, Mish."""

    def __init__(self, inputs: int, outputs: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.conv = ShortConv1d(inputs, outputs, kernel, padding=kernel // 2)
        self.norm = SequenceGroupNorm(groups, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C_in) -> (N, T, C_out)."""
        return mish(self.norm(self.conv(x)))


class ResidualBlock(nn.Module):
    """Two convolution blocks with FiLM between them, around a shortcut."""

    def __init__(self, inputs: int, outputs: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.first = ConvBlock(inputs, outputs, kernel, groups)
        self.second = ConvBlock(outputs, outputs, kernel, groups)
        self.shortcut = ShortConv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor, film: tuple[Tensor, Tensor]) -> Tensor:
        """(N, T, C_in) with scale and shift (N, 1, C_out) -> (N, T, C_out)."""
        scale, shift = film
        y: Tensor = self.second(torch.addcmul(shift, scale, self.first(x)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class UNet(Denoiser):
    """The conditional 1-D U-Net of Diffusion Policy (Chi et al. 2023), in (batch, time, channels) layout.

    Levels of two residual blocks halve time on the way down; two blocks in the middle; on the way up each
    level but the first sees its counterpart's output beside its own input and doubles time.
    """

    def __init__(self, action_dim: int, condition_dim: int, config: PolicyConfig) -> None:
        super().__init__()
        channels, kernel, groups = config.channels, config.kernel_size, config.groups
        widths: list[int] = []

        def block(inputs: int, outputs: int) -> ResidualBlock:
            widths.append(outputs)
            return ResidualBlock(inputs, outputs, kernel, groups)

        inputs = (action_dim, *channels[:-1])
        self.down = nn.ModuleList(
            nn.ModuleList([block(i, o), block(o, o)]) for i, o in zip(inputs, channels, strict=True)
        )
        self.downsample = nn.ModuleList(ShortConv1d(c, c, 3, stride=2, padding=1) for c in channels[:-1])
        self.middle = nn.ModuleList([block(channels[-1], channels[-1]) for _ in range(2)])
        climb = list(zip(channels[:0:-1], channels[-2::-1], strict=True))  # (width here, width above)
        self.up = nn.ModuleList(nn.ModuleList([block(2 * c, o), block(o, o)]) for c, o in climb)
        self.upsample = nn.ModuleList(ShortConvTranspose1d(o, o, 4, stride=2, padding=1) for _, o in climb)
        self.last = ConvBlock(channels[0], channels[0], kernel, groups)
        self.output = ShortConv1d(channels[0], action_dim, 1)
        self.film = FilmConditioning(config.step_dim, condition_dim, widths)

    @property
    def last_layers(self) -> tuple[nn.Module, ...]:
        """The last convolution block and the output."""
        return self.last, self.output

    def denoise(self, noisy: Tensor, film: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(N, T, A) and per block a scale and a shift, (N, 1, width) -> (N, T, A)."""
        films = iter(film)
        x, skips = noisy, []
        for level, blocks in enumerate(self.down):
            for block in blocks:  # type: ignore[attr-defined]
                x = block(x, next(films))
            skips.append(x)
            if level < len(self.downsample):
                x = self.downsample[level](x)
        for block in self.middle:
            x = block(x, next(films))
        for blocks, upsample in zip(self.up, self.upsample, strict=True):
            x = torch.cat([x, skips.pop()], dim=-1)
            for block in blocks:  # type: ignore[attr-defined]
                x = block(x, next(films))
            x = upsample(x)
        y: Tensor = self.output(self.last(x))
        return y


class MlpBlock(nn.Module):
    """LayerNorm, linear, FiLM, Mish, linear, around a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor, film: tuple[Tensor, Tensor]) -> Tensor:
        """(N, width) with scale and shift (N, 1, width) -> (N, width)."""
        scale, shift = (part.squeeze(1) for part in film)
        y: Tensor = self.second(mish(torch.addcmul(shift, 1 + scale, self.first(self.norm(x)))))
        return x + y


class MlpDenoiser(Denoiser):
    """A residual MLP over the flattened chunk: a fifth of the small U-Net's time, no notion of time order."""

    def __init__(self, action_dim: int, condition_dim: int, config: PolicyConfig) -> None:
        super().__init__()
        size, width = config.horizon * action_dim, config.mlp_width
        self.input = nn.Linear(size, width)
        self.blocks = nn.ModuleList(MlpBlock(width) for _ in range(config.mlp_blocks))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, size)
        self.film = FilmConditioning(config.step_dim, condition_dim, [width] * config.mlp_blocks)

    @property
    def last_layers(self) -> tuple[nn.Module, ...]:
        """The last normalisation and the output."""
        return self.norm, self.output

    def denoise(self, noisy: Tensor, film: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(N, T, A) and per block a scale and a shift, (N, 1, width) -> (N, T, A)."""
        x = self.input(noisy.flatten(1))
        for block, part in zip(self.blocks, film, strict=True):
            x = block(x, part)
        y: Tensor = self.output(self.norm(x))
        return y.view(noisy.shape)
