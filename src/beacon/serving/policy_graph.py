"""All that a policy does between an observation and its actions, as one graph of tensor operations.

Inputs, for one history: every camera uint8 (1, obs_steps, H, W, C), every proprioception float32
(1, obs_steps, d), and ``noise`` float32 from a standard normal distribution: (1, horizon, A) for DDIM, which
draws none on its way, (1, steps, horizon, A) for DDPM, which adds noise after every step but the last.
Output: actions (1, horizon, A) in the robot's units. Denoising is a loop in the graph, so its size does not
grow with the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from beacon.policy.diffusion import SamplingPlan
from beacon.policy.trained import Affine, TrainedPolicy


class StepConstants(NamedTuple):
    """Constants of a denoising step x -> a·clean + b·predicted + c·x + d·noise.

    ``clean`` is the chunk without noise, (x - noise·predicted) / signal or ``predicted`` itself, clipped.
    """

    signal: float
    noise: float
    of_clean: float  # a
    of_predicted: float  # b
    of_actions: float  # c
    of_new_noise: float  # d


def ddim_constants(plan: SamplingPlan, prediction: str) -> list[StepConstants]:
    """The steps of DDIM: what `DdimUpdate` computes, gathered by what is multiplied.

    Args:
        plan: of the policy.
        prediction: epsilon or sample.
    """
    constants = []
    for update in plan.updates or ():
        signal, noise, next_signal, next_noise = (float(value) for value in update)
        if prediction == "epsilon":
            constants.append(StepConstants(signal, noise, next_signal, next_noise, 0.0, 0.0))
        else:
            share = next_noise / noise
            constants.append(StepConstants(signal, noise, next_signal, -share * signal, share, 0.0))
    return constants


def ddpm_constants(plan: SamplingPlan) -> list[StepConstants]:
    """The steps of DDPM (Ho et al. 2020, eq. 6 and 7), with the posterior's variance.

    Args:
        plan: of the policy.
    """
    products = plan.scheduler.alphas_cumprod.double()
    constants = []
    for step, following in zip(plan.timesteps, [*plan.timesteps[1:], None], strict=True):
        here = products[step]
        there = here.new_tensor(1.0) if following is None else products[following]
        beta = 1 - here / there
        variance = ((1 - there) / (1 - here) * beta).clamp(min=1e-20)
        constants.append(
            StepConstants(
                signal=float(here.sqrt()),
                noise=float((1 - here).sqrt()),
                of_clean=float(there.sqrt() * beta / (1 - here)),
                of_predicted=0.0,
                of_actions=float((here / there).sqrt() * (1 - there) / (1 - here)),
                of_new_noise=float(variance.sqrt()) if step > 0 else 0.0,
            )
        )
    return constants


class PolicyGraph(nn.Module):
    """Observations in the order of ``observation_keys`` and noise -> actions."""

    constants: Tensor
    steps: Tensor

    def __init__(self, policy: TrainedPolicy) -> None:
        """Take over a policy.

        Args:
            policy: on the CPU, in float32.
        """
        super().__init__()
        self.policy, self.names = policy.policy, policy.observation_keys
        self.cameras = set(policy.spec.cameras)
        self.scales = {name: _float(affine) for name, affine in policy.normalization.proprio.items()}
        self.actions = _float(policy.normalization.actions)
        plan = policy.policy.plan_sampling()
        self.draws_noise = plan.updates is None
        constants = (
            ddpm_constants(plan)
            if self.draws_noise
            else ddim_constants(plan, policy.policy.config.prediction)
        )
        self.register_buffer("constants", torch.tensor(constants, dtype=torch.float32), persistent=False)
        # Ordinary tensors: those of inference mode cannot be traced.
        self.register_buffer("steps", torch.stack([step.clone() for step in plan.steps]), persistent=False)
        self.noise_shape: tuple[int, ...] = (policy.horizon, policy.spec.action_dim)
        if self.draws_noise:
            self.noise_shape = (len(plan.timesteps), *self.noise_shape)

    def draw_noise(self, generator: torch.Generator) -> Tensor:
        """The input ``noise``, drawn as `DiffusionPolicy.sample` draws it.

        Args:
            generator: of the random numbers.
        """
        shape = (1, *self.noise_shape[-2:])
        if not self.draws_noise:
            return torch.randn(shape, generator=generator)
        draws = [torch.randn(shape, generator=generator) for _ in range(self.noise_shape[0])]
        return torch.stack(draws, dim=1)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Observations, then the noise -> actions (1, horizon, A)."""
        from torch._higher_order_ops.scan import scan  # the loop that torch can export

        values = dict(zip(self.names, inputs[:-1], strict=True))
        images = {name: value for name, value in values.items() if name in self.cameras}
        proprio = {n: self.scales[n].normalise(v) for n, v in values.items() if n not in self.cameras}
        condition = self.policy.encode(images, proprio).observation
        denoiser, config = self.policy.denoiser, self.policy.config
        projected, unlabelled = denoiser.project(condition), self.policy.project_unlabelled(condition)
        guidance = self.policy.encoder.guidance
        draws = self._draws(inputs[-1])

        def denoise(actions: Tensor, step: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            constants, film, new_noise = step
            predicted = denoiser.denoise(actions, denoiser.film.join(film, projected)).view_as(actions)
            if unlabelled is not None:
                without = denoiser.denoise(actions, denoiser.film.join(film, unlabelled)).view_as(actions)
                predicted = without + guidance * (predicted - without)
            clean = predicted
            if config.prediction == "epsilon":
                clean = (actions - constants[1] * predicted) / constants[0]
            if config.clip_sample:
                clean = clean.clamp(-1.0, 1.0)
            following = constants[2] * clean + constants[3] * predicted + constants[4] * actions
            # The loop wants its chunk laid out in memory as the first one is.
            following = (following + constants[5] * new_noise).contiguous()
            return following, following.clone()

        actions, _ = scan(denoise, draws[0], (self.constants, self.steps, draws[1:]))
        return self.actions.restore(actions.clamp(-1, 1) if config.clip_sample else actions)

    def _draws(self, noise: Tensor) -> Tensor:
        """The first chunk, and the noise that each step adds, (1 + steps, 1, horizon, A)."""
        if not self.draws_noise:
            zeros = noise.new_zeros((len(self.steps), *noise.shape))
            return torch.cat([noise[None], zeros])
        return torch.cat([noise.movedim(1, 0), noise.new_zeros((1, *noise[:, 0].shape))])


def _float(affine: Affine) -> Affine:
    return Affine(affine.offset.float(), affine.scale.float())
