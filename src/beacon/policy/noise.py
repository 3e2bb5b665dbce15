"""How diffusion steps are drawn in training, and diffusers' schedulers for the way back."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from beacon.policy.config import PolicyConfig


def make_scheduler(config: PolicyConfig, sampler: Literal["ddpm", "ddim"] | None = None) -> Any:
    """Diffusers' DDPM (Ho et al. 2020) or DDIM (Song et al. 2021) scheduler of a policy."""
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler  # seconds to import
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

    options: dict[str, Any] = {
        "num_train_timesteps": config.train_timesteps,
        "beta_schedule": config.schedule,
        "prediction_type": config.prediction,
        "clip_sample": config.clip_sample,
    }
    if (sampler or config.sampler) == "ddim":
        return DDIMScheduler(**options)
    return DDPMScheduler(**options)


class DdimUpdate(NamedTuple):
    """Constants of one DDIM step t -> s (Song et al. 2021, eq. 12, sigma = 0), a the cumulative product."""

    signal: Tensor  # sqrt(a_t)
    noise: Tensor  # sqrt(1 - a_t)
    next_signal: Tensor  # sqrt(a_s)
    next_noise: Tensor  # sqrt(1 - a_s)

    def __call__(self, predicted: Tensor, actions: Tensor, config: PolicyConfig) -> Tensor:
        """The chunk at s from what the denoiser predicted at t, by diffusers' operations in their order."""
        if config.prediction == "epsilon":
            clean, noise = (actions - self.noise * predicted) / self.signal, predicted
        else:
            clean, noise = predicted, (actions - self.signal * predicted) / self.noise
        if config.clip_sample:
            clean = clean.clamp(-1.0, 1.0)
        return self.next_signal * clean + self.next_noise * noise


def ddim_updates(scheduler: Any) -> list[DdimUpdate]:
    """The constants of every step of a DDIM scheduler whose timesteps are set, rounded as it rounds them."""
    stride = scheduler.config.num_train_timesteps // scheduler.num_inference_steps
    updates = []
    for step in scheduler.timesteps.tolist():
        here = scheduler.alphas_cumprod[step]
        there = scheduler.alphas_cumprod[step - stride] if step >= stride else scheduler.final_alpha_cumprod
        # diffusers subtracts the variance of the noise, which is zero here.
        none = (0.0 * here) ** 2
        updates.append(
            DdimUpdate(here**0.5, (1 - here) ** 0.5, there**0.5, (1 - there - none) ** 0.5),
        )
    return updates


def draw_timesteps(
    train_timesteps: int, draws: int, samples: int, generator: torch.Generator, *, stratified: bool
) -> Tensor:
    """Diffusion steps (draws, samples), uniform over 0 .. train_timesteps - 1.

    Stratified, a sample's draws fall one into each of ``draws`` equal parts of that range, t_d =
    floor((d + u_d) T / D): their average over draws is an unbiased estimate still, of lower variance.
    """
    device = generator.device
    if not stratified or draws == 1:
        return torch.randint(train_timesteps, (draws, samples), generator=generator, device=device)
    part = torch.rand(draws, samples, generator=generator, device=device, dtype=torch.float64)
    part += torch.arange(draws, device=device).unsqueeze(1)
    return (part * (train_timesteps / draws)).long().clamp_(max=train_timesteps - 1)
