"""The diffusion policy: encode observations, predict noise, sample actions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from beacon.devices import upload
from beacon.errors import UserError
from beacon.policy.config import ObservationSpec, PolicyConfig
from beacon.policy.denoiser import Denoiser, MlpDenoiser, UNet
from beacon.policy.encoder import Encoding, ObservationEncoder
from beacon.policy.noise import DdimUpdate, ddim_updates, draw_timesteps, make_scheduler
from beacon.randomness import Share, drawn_rows


class SamplingPlan(NamedTuple):
    """What sampling needs that depends on the parameters alone: computed once, used for every chunk."""

    scheduler: Any  # diffusers', with its timesteps set
    timesteps: list[int]
    steps: list[Tensor]  # for every timestep, its part of the denoiser's scales and shifts, (1, 1, F)
    updates: list[DdimUpdate] | None  # constants of DDIM; None: DDPM, which draws noise in every step


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
        self._compiled: Callable[..., Tensor] | None = None  # a denoising step, when sampling
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
        share: Share | None = None,
    ) -> Encoding:
        """Encode uint8 images (B, obs_steps, H, W, C) and normalised proprioception (B, obs_steps, d).

        With a generator each sample is cropped at random (in training), without one in the centre; domain
        labels, where there are any, are left out at random. ``of_source``, (B,), says which samples are of
        the source; by default none is, as when acting. ``share`` says which rows of the mini-batch these are.
        """
        encoding: Encoding = self.encoder(images, proprio, crop_generator, of_source, share)
        return encoding

    def draw_noise(
        self,
        batch_size: int,
        draws: int,
        generator: torch.Generator,
        *,
        shared: bool = False,
        stratified: bool = True,
        share: Share | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Noise (D, B, horizon, A) and timesteps (D, B).

        Args:
            batch_size: B.
            draws: D.
            generator: of the random numbers.
            shared: the same for all samples.
            stratified: spread the timesteps of a sample.
            share: which rows of the mini-batch these are.
        """
        samples = 1 if shared else drawn_rows(share, batch_size)
        noise, timesteps = self.draw_on_host(samples, draws, generator, stratified=stratified)
        if share is not None and not shared:
            noise, timesteps = share.of(noise, dim=1), share.of(timesteps, dim=1)
        noise, timesteps = upload(noise, self.device), upload(timesteps, self.device)
        return noise.expand(-1, batch_size, -1, -1), timesteps.expand(-1, batch_size)

    def draw_on_host(
        self, samples: int, draws: int, generator: torch.Generator, *, stratified: bool = True
    ) -> tuple[Tensor, Tensor]:
        """What `draw_noise` sends to the device; alone, it lets a generator pass over what others use."""
        shape = (draws, samples, self.config.horizon, self.spec.action_dim)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        steps = self.config.train_timesteps
        return noise, draw_timesteps(steps, draws, samples, generator, stratified=stratified)

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
    def plan_sampling(
        self, *, steps: int | None = None, sampler: Literal["ddpm", "ddim"] | None = None
    ) -> SamplingPlan:
        """Prepare `sample` for the parameters as they are now; they must not change while the plan is used.

        Args:
            steps: denoising steps; None: as configured.
            sampler: None: as configured.
        """
        chosen = sampler or self.config.sampler
        scheduler = copy.copy(self._schedulers[chosen])  # it holds the state of one loop
        scheduler.set_timesteps(steps or self.config.sampling_steps)
        timesteps = scheduler.timesteps.tolist()
        films = [
            self.denoiser.film.project_steps(torch.full((1, 1), step, device=self.device))
            for step in timesteps
        ]
        return SamplingPlan(
            scheduler, timesteps, films, ddim_updates(scheduler) if chosen == "ddim" else None
        )

    @torch.inference_mode()
    def sample(
        self,
        condition: Tensor,
        generator: torch.Generator | Sequence[torch.Generator],
        *,
        steps: int | None = None,
        sampler: Literal["ddpm", "ddim"] | None = None,
        plan: SamplingPlan | None = None,
    ) -> Tensor:
        """Normalised action chunks (B, horizon, A).

        Args:
            condition: (B, C), ``Encoding.observation``.
            generator: one for the batch, or one for each sample, which makes a sample independent of its
                batch.
            steps: denoising steps; None: as configured.
            sampler: None: as configured.
            plan: what `plan_sampling` gave, instead of ``steps`` and ``sampler``; saves a tenth of the time.
        """
        plan = plan or self.plan_sampling(steps=steps, sampler=sampler)
        generators = list(generator) if isinstance(generator, Sequence) else generator
        shape = (len(condition), self.config.horizon, self.spec.action_dim)
        actions = _randn(shape, generators, self.device)
        dtype = self.denoiser.film.from_step.weight.dtype  # of the network; the chunk itself is float32
        projected = self.denoiser.project(condition.to(dtype))
        unlabelled = self.project_unlabelled(condition.to(dtype))
        scheduler = copy.copy(plan.scheduler)
        denoise = self._compiled or self.denoiser.denoise
        for number, step in enumerate(plan.timesteps):
            film = self.denoiser.film.join(plan.steps[number], projected)
            predicted = denoise(actions.to(dtype), film).view(shape).float()
            if unlabelled is not None:
                film = self.denoiser.film.join(plan.steps[number], unlabelled)
                predicted = predicted.clone()  # a CUDA graph writes its next result to the same place
                without = denoise(actions.to(dtype), film).view(shape).float()
                predicted = without + self.encoder.guidance * (predicted - without)
            if plan.updates is not None:
                actions = plan.updates[number](predicted, actions, self.config)
            else:
                actions = scheduler.step(predicted, step, actions, generator=generators, return_dict=False)[0]
        return actions.clamp(-1, 1) if self.config.clip_sample else actions

    def project_unlabelled(self, condition: Tensor) -> Tensor | None:
        """The same observations without their domain label, projected, where it guides (`DomainLabel`).

        Args:
            condition: (B, C), ``Encoding.observation``.
        """
        if self.encoder.guidance == 1:
            return None
        observed = condition[:, : -self.encoder.label_dim]
        return self.denoiser.project(F.pad(observed, (0, self.encoder.label_dim)))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """``torch.compile`` the two networks in place; names of parameters stay as they are."""
        for module in (*self.encoder.cameras, self.denoiser):
            module.compile(*args, **kwargs)

    def compile_sampling(self, **options: Any) -> None:
        """``torch.compile`` a denoising step of `sample`: on a GPU a CUDA graph, one launch a step.

        Args:
            options: of ``torch.compile``, in place of ``mode="reduce-overhead"``.
        """
        self._compiled = torch.compile(self.denoiser.denoise, **(options or {"mode": "reduce-overhead"}))

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
