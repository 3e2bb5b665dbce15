"""The localized discrepancy of a policy: its reference, and the losses around it (paper, appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.devices import upload
from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, ReferencePolicy
from beacon.randomness import generator
from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy, Estimator
from beacon.weighting.inputs import PerSample, RefreshInputs

if TYPE_CHECKING:
    from torch import Tensor

EVALUATE, ASCEND = 0, 1  # streams of randomness
PART = 256


@DISCREPANCIES.register("localized")
@dataclass(frozen=True)
class LocalizedDiscrepancy(Discrepancy):
    """One number per source domain, found once: d̂ = max over a ball of L_target(θ) − L_source(θ)."""

    # Radius of the ball around the reference's denoiser, as a share of its norm; paper: not given.
    radius: float = 0.05
    # Strength of the pull towards the reference while ascending; paper: unstated.
    beta: float = 1e-3
    # Steps of the ascent, and their size (Adam); paper: unstated.
    steps: int = 500
    learning_rate: float = 1e-4
    # Steps between two evaluations of the gap, of which the largest counts.
    evaluate_every: int = 25
    # Windows of each domain, 0 means all (paper), and noise draws for each window, the same at every
    # evaluation.
    windows: int = 0
    draws: int = 4
    # Gradient steps of the target-only reference policy, as a share of the run's own.
    reference_share: float = 0.25

    needs: ClassVar[frozenset[str]] = frozenset()
    once: ClassVar[bool] = True
    default_strength: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        for name in ("radius", "learning_rate"):
            if not getattr(self, name) > 0:
                raise _refusal(name, getattr(self, name), "above 0")
        for name in ("steps", "evaluate_every", "draws"):
            if getattr(self, name) < 1:
                raise _refusal(name, getattr(self, name), "at least 1")
        for name in ("beta", "windows"):
            if getattr(self, name) < 0:
                raise _refusal(name, getattr(self, name), "at least 0")
        if not 0 < self.reference_share <= 1:
            raise _refusal("reference_share", self.reference_share, "above 0 and at most 1")

    def build(self, context: MethodContext) -> Estimator:
        """The estimator of one run."""
        if context is None:
            raise ValueError(
                "discrepancy: 'localized' needs a policy; use LocalizedEstimator in your own loop"
            )
        return PolicyDiscrepancy(self, context)


class PolicyDiscrepancy:
    """One number per source domain, found once."""

    once = True
    shards = True  # it looks at windows itself

    def __init__(self, options: LocalizedDiscrepancy, context: MethodContext) -> None:
        self.options, self.context = options, context

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """Fit the target-only reference and ascend the gap of every source domain around it."""
        from beacon.weighting import LocalizedEstimator
        from beacon.weighting.discrepancy.localized import vector_length

        context, options = self.context, self.options
        reference = context.fit_target_reference(options.reference_share)
        around = DenoiserLosses(reference, context, options)
        theta = around.start
        return LocalizedEstimator(
            around.loss,
            around.gradient,
            theta,
            radius=options.radius * vector_length(theta),
            beta=options.beta,
            learning_rate=options.learning_rate,
            steps=options.steps,
            evaluate_every=options.evaluate_every,
        )(inputs)


class DenoiserLosses:
    """Mean loss of a domain, and its gradient, over the denoiser's parameters with the encoder frozen.

    Windows are encoded once. The loss is over the same windows and the same noise at every call, drawn for
    each window; the gradient is of a new mini-batch at every call.
    """

    def __init__(
        self, reference: ReferencePolicy, context: MethodContext, options: LocalizedDiscrepancy
    ) -> None:
        self._policy, self._context, self._options = reference.policy, context, options
        self._denoiser = reference.policy.denoiser
        self.start: Tensor = _flat([p.detach() for p in self._denoiser.parameters()])
        self._data = {
            name: self._encode(reference, self._choose(number))
            for number, name in enumerate(context.domains.names)
        }
        self._calls = dict.fromkeys(context.domains.names, 0)

    def loss(self, theta: Tensor, domain: int | str) -> float:
        """Mean over the domain's windows, at denoiser parameters θ."""
        import torch

        self._set(theta)
        conditions, actions = self._data[str(domain)]
        total = torch.zeros((), dtype=torch.float64, device=actions.device)
        with torch.no_grad():
            for start in range(0, len(actions), PART):
                part = slice(start, start + PART)
                draw = generator(self._context.seed, EVALUATE, start)
                noise, timesteps = self._policy.draw_noise(len(actions[part]), self._options.draws, draw)
                losses = self._policy.per_sample_loss(conditions[part], actions[part], noise, timesteps)
                total += losses.mean(dim=0).double().sum()
        return float(total) / len(actions)

    def gradient(self, theta: Tensor, domain: int | str) -> Tensor:
        """Its gradient, from a mini-batch."""
        import torch

        name = str(domain)
        self._set(theta)
        conditions, actions = self._data[name]
        self._calls[name] += 1
        draw = generator(
            self._context.seed, ASCEND, self._context.domains.names.index(name), self._calls[name]
        )
        chosen = torch.randint(len(actions), (self._context.batch_size,), generator=draw)
        chosen = upload(chosen, actions.device)
        noise, timesteps = self._policy.draw_noise(len(chosen), 1, draw)
        loss = self._policy.per_sample_loss(conditions[chosen], actions[chosen], noise, timesteps).mean()
        return _flat(torch.autograd.grad(loss, list(self._denoiser.parameters())))

    def _set(self, theta: Tensor) -> None:
        import torch

        vector, start = theta.float(), 0
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

    def _encode(self, reference: ReferencePolicy, index: Indices) -> tuple[Tensor, Tensor]:
        """Conditions (B, C) and normalised action chunks (B, horizon, A), on the policy's device."""
        device = self._policy.device
        conditions = reference.measure(index, 1, 0).observation
        return conditions.to(device), reference.actions(index).to(device)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """All values in a row, as float64."""
    import torch

    return torch.cat([tensor.reshape(-1).double() for tensor in tensors])


def _refusal(name: str, value: float, expected: str) -> UserError:
    return UserError(f"--discrepancy.{name.replace('_', '-')} {value}: must be {expected}")
