"""The diffusion policy: encode observations, predict noise, sample actions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from beacon.errors import UserError
from beacon.policy.config import ObservationSpec, PolicyConfig
from beacon.policy.denoiser import Denoiser, MlpDenoiser, UNet
from beacon.policy.encoder import Encoding, ObservationEncoder
from beacon.policy.noise import draw_timesteps, make_scheduler


class DiffusionPolicy(nn.Module):
    """p(action chunk | observation history) by denoising diffusion (Chi et al. 2023).

    Everything is in normalised units: proprioception and actions in [-1, 1], images as uint8. Parameters are
    a function of ``seed`` alone; the global random state is neither read nor changed.
    """

    signal: Tensor
    noise: Tensor

    def __init__(self, spec: ObservationSpec, config: PolicyConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.spec, self.config = spec, config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = ObservationEncoder(spec, config.encoder)
            denoiser = UNet if config.denoiser == "unet" else MlpDenoiser
            self.denoiser: Denoiser = denoiser(spec.action_dim, self.condition_dim, config)
        self._schedulers: dict[str, Any] = {name: make_scheduler(config, name) for name in ("ddpm", "ddim")}
        alphas = self._schedulers["ddpm"].alphas_cumprod  # (train_timesteps,)
        self.register_buffer("signal", alphas.sqrt(), persistent=False)
        self.register_buffer("noise", (1 - alphas).sqrt(), persistent=False)

    @property
    def vision_dim(self) -> int:
        """Values of ``Encoding.vision`` per sample."""
        return self.config.obs_steps * self.encoder.vision_dim

    @property
    def condition_dim(self) -> int:
        """Values of ``Encoding.observation`` per sample."""
        observed = self.vision_dim + self.config.obs_steps * self.encoder.proprio_dim
        return observed + self.encoder.label_dim

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.signal.device

    def encode(
        self,
        images: dict[str, Tensor],
        proprio: dict[str, Tensor],
        *,
        crop_generator: torch.Generator | None = None,
        of_source: Tensor | None = None,
    ) -> Encoding:
        """Encode uint8 images (B, obs_steps, H, W, C) and normalised proprioception (B, obs_steps, d).

        With a generator each sample is cropped at random (in training), without one in the centre; domain
        labels, where there are any, are left out at random. ``of_source``, (B,), says which samples are of
        the source; by default none is, as when acting.
        """
        encoding: Encoding = self.encoder(images, proprio, crop_generator, of_source)
        return encoding

    def draw_noise(
        self,
        batch_size: int,
        draws: int,
        generator: torch.Generator,
        *,
        shared: bool = False,
        stratified: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Noise (D, B, horizon, A) and timesteps (D, B); ``shared``: the same for all samples."""
        samples = 1 if shared else batch_size
        shape = (draws, samples, self.config.horizon, self.spec.action_dim)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        timesteps = draw_timesteps(
            self.config.train_timesteps, draws, samples, generator, stratified=stratified
        )
        noise, timesteps = noise.to(self.device), timesteps.to(self.device)
        return noise.expand(-1, batch_size, -1, -1), timesteps.expand(-1, batch_size)

    def per_sample_loss(self, condition: Tensor, actions: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Denoising loss of every sample and draw, float32 (D, B).

        l_db = mean_{t,a} (eps_db - eps_theta(sqrt(abar_k) y_b + sqrt(1 - abar_k) eps_db, k, x_b))^2 with k
        the timestep of draw d and sample b, abar the schedule's cumulative product (Ho et al. 2020, eq. 14).

        condition: (B, C), ``Encoding.observation``; actions: (B, horizon, A), normalised;
        noise: (D, B, horizon, A); timesteps: (D, B).
        """
        signal = self.signal[timesteps][..., None, None]  # (D, B, 1, 1)
        noisy = torch.addcmul(signal * actions, self.noise[timesteps][..., None, None], noise)
        predicted = self.denoiser(noisy, timesteps, self.denoiser.project(condition))
        target = noise if self.config.prediction == "epsilon" else actions
        losses: Tensor = (predicted.float() - target).square().mean(dim=(2, 3))
        return losses

    @torch.inference_mode()
    def sample(
        self,
        condition: Tensor,
        generator: torch.Generator | Sequence[torch.Generator],
        *,
        steps: int | None = None,
        sampler: Literal["ddpm", "ddim"] | None = None,
    ) -> Tensor:
        """Normalised action chunks (B, horizon, A) for conditions (B, C).

        One generator for the batch, or one for each sample, which makes a sample independent of its batch.
        A domain label guides as `DomainLabel` says.
        """
        scheduler = copy.copy(
            self._schedulers[sampler or self.config.sampler]
        )  # it holds the state of one loop
        scheduler.set_timesteps(steps or self.config.sampling_steps)
        batch = len(condition)
        generators = list(generator) if isinstance(generator, Sequence) else generator
        actions = _randn((batch, self.config.horizon, self.spec.action_dim), generators, self.device)
        projected = self.denoiser.project(condition)
        unlabelled = None  # the same observations without their domain label, where it guides
        if self.encoder.guidance != 1:
            observed = condition[:, : -self.encoder.label_dim]
            unlabelled = self.denoiser.project(F.pad(observed, (0, self.encoder.label_dim)))
        for step in scheduler.timesteps.tolist():
            timestep = torch.full((1, 1), step, device=self.device)
            predicted = self.denoiser(actions.unsqueeze(0), timestep, projected)[0].float()
            if unlabelled is not None:
                without = self.denoiser(actions.unsqueeze(0), timestep, unlabelled)[0].float()
                predicted = without + self.encoder.guidance * (predicted - without)
            actions = scheduler.step(predicted, step, actions, generator=generators, return_dict=False)[0]
        return actions.clamp(-1, 1) if self.config.clip_sample else actions

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """``torch.compile`` the two networks in place; names of parameters stay as they are."""
        for module in (*self.encoder.cameras, self.denoiser):
            module.compile(*args, **kwargs)

    def forward(
        self,
        images: dict[str, Tensor],
        proprio: dict[str, Tensor],
        actions: Tensor,
        noise: Tensor,
        timesteps: Tensor,
        *,
        crop_generator: torch.Generator | None = None,
        of_source: Tensor | None = None,
    ) -> tuple[Tensor, Encoding]:
        """``encode`` and ``per_sample_loss`` in one call, for wrappers that need to see a whole pass."""
        encoding = self.encode(images, proprio, crop_generator=crop_generator, of_source=of_source)
        return self.per_sample_loss(encoding.observation, actions, noise, timesteps), encoding


def _randn(
    shape: tuple[int, ...], generator: torch.Generator | list[torch.Generator], device: torch.device
) -> Tensor:
    if isinstance(generator, torch.Generator):
        return torch.randn(shape, generator=generator, device=generator.device).to(device)
    if len(generator) != shape[0]:
        raise UserError(f"{len(generator)} random generators for {shape[0]} observations")
    rows = [torch.randn(shape[1:], generator=row, device=row.device) for row in generator]
    return torch.stack(rows).to(device)
