"""Noise that is added to the observations of training samples, as much as their domain lacks."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from beacon.data import WindowBatch
from beacon.data.sensor_noise import MissingNoise
from beacon.devices import upload
from beacon.randomness import Share, drawn_rows, generator

_GRAIN = 1 << 20  # numbers from which the noise of pixels is taken; to draw it anew takes longer


class SensorNoise:
    """Independent, normally distributed noise of proprioception and pixels."""

    def __init__(self, lacking: MissingNoise, device: torch.device) -> None:
        """Prepare the noise.

        Args:
            lacking: how much every domain gets.
            device: where mini-batches are.
        """
        self._proprio = {key: torch.from_numpy(values).to(device) for key, values in lacking.proprio.items()}
        self._images = {key: torch.from_numpy(values).to(device) for key, values in lacking.images.items()}
        self._grain = torch.randn(_GRAIN, generator=generator(0)).to(device) if self._images else None
        self._runs: dict[int, Tensor] = {}  # by their length

    def add(self, batch: WindowBatch, draw: torch.Generator, share: Share | None = None) -> WindowBatch:
        """The batch with noisier observations; images that get noise are float32 in [0, 255].

        Args:
            batch: not normalised.
            draw: of the random numbers.
            share: which rows of the mini-batch these are.
        """
        proprio, images = dict(batch.proprio), dict(batch.images)
        for key in sorted(self._proprio):
            values = batch.proprio[key]
            drawn = torch.randn(_rows(batch, share), *values.shape[1:], generator=draw, device=draw.device)
            spread = _spread(self._proprio[key], batch)  # (B, d)
            proprio[key] = values + _own(drawn, share, values.device) * spread.unsqueeze(1)
        for key in sorted(self._images):
            pixels = batch.images[key]
            spread = _spread(self._images[key], batch)  # (B, C)
            grain = self._grain_like(pixels, draw, share)
            images[key] = grain.mul_(spread[:, None, None, None]).add_(pixels).clamp_(0, 255)
        return replace(batch, proprio=proprio, images=images)

    def _grain_like(self, pixels: Tensor, draw: torch.Generator, share: Share | None) -> Tensor:
        """Noise of variance one for images (B, T, H, W, C): runs of the grain that begin at random."""
        batch, steps, *shape = pixels.shape
        rows = drawn_rows(share, batch)
        drawn = torch.randint(_GRAIN, (rows, steps), generator=draw, device=draw.device)
        begin = _own(drawn, share, pixels.device)
        runs = self._runs_of(math.prod(shape))
        return runs.index_select(0, begin.flatten()).view(pixels.shape)

    def _runs_of(self, size: int) -> Tensor:
        """All runs of so many numbers, (_GRAIN, size), of a grain that begins anew at its end: views, so that
        to take one is a plain copy.
        """
        if size not in self._runs:
            assert self._grain is not None
            endless = self._grain.repeat(1 + math.ceil(size / _GRAIN))[: _GRAIN + size - 1]
            self._runs[size] = endless.unfold(0, size, 1)
        return self._runs[size]


def _rows(batch: WindowBatch, share: Share | None) -> int:
    return drawn_rows(share, len(batch))


def _own(drawn: Tensor, share: Share | None, device: torch.device) -> Tensor:
    return upload(drawn if share is None else share.of(drawn), device)


def _spread(table: Tensor, batch: WindowBatch) -> Tensor:
    """The rows of a table of domains, one a sample."""
    return table.to(batch.domain.device)[batch.domain]
