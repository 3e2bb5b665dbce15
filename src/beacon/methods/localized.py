"""The localized discrepancy of a policy: its reference, and the losses around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, Reference

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from beacon.weighting import Discrepancy, DiscrepancyInputs

Vector = NDArray[np.float64]
REFERENCE = "target-only"  # its name in the run folder
EVALUATE, ASCEND = 0, 1  # streams of randomness
PART = 256


@dataclass(frozen=True)
class LocalizedOptions:
    """Options of the localized discrepancy: d̂ = max over a ball of L_target(θ) − L_source(θ)."""

    # Radius of the ball around the reference's denoiser, as a share of its norm. Paper: not given; 0.05.
    radius: float = 0.05
    # Strength of the pull towards the reference while ascending; paper: unstated.
    beta: float = 1e-3
    # Steps of the ascent, and their size (Adam); paper: unstated.
    steps: int = 500
    learning_rate: float = 1e-4
    # Steps between two evaluations of the gap, of which the largest counts.
    evaluate_every: int = 25
    # Windows of each domain, and noise draws for each, the same at every evaluation; 0 windows means all.
    windows: int = 2048
    draws: int = 4

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise UserError(f"--localized.radius {self.radius}: must be above 0")
        if not self.learning_rate > 0:
            raise UserError(f"--localized.learning-rate {self.learning_rate}: must be above 0")
        for name in ("steps", "evaluate_every", "draws"):
            if getattr(self, name) < 1:
                raise UserError(
                    f"--localized.{name.replace('_', '-')} {getattr(self, name)}: must be at least 1"
                )
        for name in ("beta", "windows"):
            if getattr(self, name) < 0:
                raise UserError(f"--localized.{name} {getattr(self, name)}: must be at least 0")


class PolicyDiscrepancy:
    """One number per source domain, found once: an estimator for `beacon.weighting.Reweighter`."""

    constant = True

    def __init__(self, options: LocalizedOptions, context: MethodContext, reference_steps: int) -> None:
        self.options, self.context, self._reference_steps = options, context, reference_steps

    def __call__(self, inputs: DiscrepancyInputs) -> Discrepancy:
        """Fit the target-only reference and ascend the gap of every source domain around it."""
        from beacon.weighting import Localized

        context, options = self.context, self.options
        reference = context.fit_reference(REFERENCE, context.target_windows, self._reference_steps)
        around = DenoiserLosses(reference, context, options)
        theta = around.start
        return Localized(
            around.loss,
            around.gradient,
            theta,
            radius=options.radius * float(np.linalg.norm(theta)),
            beta=options.beta,
            learning_rate=options.learning_rate,
            steps=options.steps,
            evaluate_every=options.evaluate_every,
        )(inputs)


class DenoiserLosses:
    """Mean loss of a domain, and its gradient, over the denoiser's parameters with the encoder frozen.

    Windows are encoded once. The loss is over the same windows and the same noise at every call, and the
    noise is shared by all windows; the gradient is of a new mini-batch at every call.
    """

    def __init__(self, reference: Reference, context: MethodContext, options: LocalizedOptions) -> None:
        self._policy, self._context, self._options = reference.policy, context, options
        self._denoiser = reference.policy.denoiser
        self.start: Vector = _flat([p.detach() for p in self._denoiser.parameters()])
        self._data = {
            name: self._encode(reference, self._choose(number)) for number, name in enumerate(context.domains)
        }
        self._calls = dict.fromkeys(context.domains, 0)

    def loss(self, theta: Vector, domain: int | str) -> float:
        """Mean over the domain's windows, at denoiser parameters θ."""
        import torch

        self._set(theta)
        conditions, actions = self._data[str(domain)]
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(actions), PART):
                part = slice(start, start + PART)
                noise, timesteps = self._policy.draw_noise(
                    len(actions[part]), self._options.draws, self._generator(EVALUATE), shared=True
                )
                found = self._policy.per_sample_loss(conditions[part], actions[part], noise, timesteps)
                total += float(found.mean(dim=0).double().sum())
        return total / len(actions)

    def gradient(self, theta: Vector, domain: int | str) -> Vector:
        """Its gradient, from a mini-batch."""
        import torch

        name = str(domain)
        self._set(theta)
        conditions, actions = self._data[name]
        self._calls[name] += 1
        draw = self._generator(ASCEND, self._context.domains.index(name), self._calls[name])
        chosen = torch.randint(len(actions), (self._context.batch_size,), generator=draw).to(actions.device)
        noise, timesteps = self._policy.draw_noise(len(chosen), 1, draw)
        loss = self._policy.per_sample_loss(conditions[chosen], actions[chosen], noise, timesteps).mean()
        return _flat(torch.autograd.grad(loss, list(self._denoiser.parameters())))

    def _set(self, theta: Vector) -> None:
        import torch

        vector, start = torch.from_numpy(theta).to(self._policy.device, torch.float32), 0
        with torch.no_grad():
            for parameter in self._denoiser.parameters():
                part = vector[start : start + parameter.numel()]
                parameter.copy_(part.reshape(parameter.shape))  # in place: its memory layout stays
                start += parameter.numel()

    def _choose(self, domain: int) -> Indices:
        """The windows of a domain that are looked at."""
        members = np.flatnonzero(self._context.windows.domain == domain)
        most = self._options.windows
        if not most or len(members) <= most:
            return members
        rng = np.random.default_rng([self._context.seed, domain])
        return np.sort(rng.choice(members, most, replace=False))

    def _encode(self, reference: Reference, index: Indices) -> tuple[Tensor, Tensor]:
        """Conditions (B, C) and normalised action chunks (B, horizon, A), on the policy's device."""
        device = self._policy.device
        conditions = reference.measure(index, 1, 0).observation
        return conditions.to(device), reference.actions(index).to(device)

    def _generator(self, *keys: int) -> torch.Generator:
        import torch

        state = np.random.SeedSequence([self._context.seed, *keys]).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def _flat(tensors: Sequence[Tensor]) -> Vector:
    """All values in a row, as NumPy's double."""
    return np.concatenate([t.reshape(-1).double().cpu().numpy() for t in tensors])
