"""One pass of a policy over a mini-batch: scaling, encoding, noise, denoising losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from beacon.data import Normalizer, WindowBatch
from beacon.errors import UserError
from beacon.policy import DiffusionPolicy, Encoding
from beacon.randomness import Share
from beacon.training.sensor_noise import SensorNoise
from beacon.training.window_measurer import normalise, of_source


class LossPass(nn.Module):
    """What a gradient step computes of a mini-batch, as a module to be wrapped for several processes."""

    def __init__(
        self,
        policy: DiffusionPolicy,
        normalizer: Normalizer,
        target: int | None,
        precision: str,
        noise: SensorNoise | None = None,
    ) -> None:
        """Prepare the pass.

        Args:
            policy: whose losses.
            normalizer: the run's scaling.
            target: number of the target domain; None where there is none.
            precision: of the run's options.
            noise: what is added to observations.
        """
        super().__init__()
        self.policy, self._normalizer, self._target, self._precision = policy, normalizer, target, precision
        self._noise = noise

    def forward(
        self, batch: WindowBatch, draw: torch.Generator, share: Share | None = None
    ) -> tuple[Tensor, Tensor, Encoding]:
        """Losses and timesteps (draws, B), with crops and noise as ``draw`` says, and the encoding.

        Args:
            batch: on the policy's device, or the CPU.
            draw: of crops and noise.
            share: which rows of the mini-batch these are; None: all.
        """
        policy, device = self.policy, self.policy.device
        config = policy.config
        if self._noise is not None:
            batch = self._noise.add(batch, draw, share)
        actions, proprio = normalise(self._normalizer, batch, device)
        with autocast(device, self._precision):
            source = of_source(batch.domain, self._target)
            encoding = policy.encode(
                batch.images, proprio, crop_generator=draw, of_source=source, share=share
            )
            noise, timesteps = policy.draw_noise(
                len(batch), config.draws, draw, stratified=config.stratified, share=share
            )
            losses = policy.per_sample_loss(encoding.observation, actions, noise, timesteps)
        return losses, timesteps, encoding


def check_precision(device: torch.device, precision: str) -> None:
    """Refuse bf16 on a processor that would compute it by detours."""
    supported = torch.ops.mkldnn._is_mkldnn_bf16_supported
    if precision == "bf16" and device.type == "cpu" and not supported():
        raise UserError("--precision bf16: this processor does not have it; say --precision float32")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The numbers that a pass computes in: ``bf16`` where it is said, and by default on a GPU."""
    enabled = precision == "bf16" or (precision == "auto" and device.type == "cuda")
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)
