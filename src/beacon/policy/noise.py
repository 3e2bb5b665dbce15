"""How diffusion steps are drawn in training, and diffusers' schedulers for the way back."""

from __future__ import annotations

from typing import Any, Literal

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
