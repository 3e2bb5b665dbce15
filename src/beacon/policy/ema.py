"""Exponential moving average of a policy's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from beacon.errors import UserError
from beacon.policy.flat import FlatParameters


class ModelEma:
    """Averaged parameters, v <- beta v + (1 - beta) theta, beta(s) = clip(1 - (1 + s)^-power, min, max).

    beta(0) = 0: the first update copies the parameters. Defaults are the public Diffusion Policy's.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        *,
        power: float = 0.75,
        min_decay: float = 0.0,
        max_decay: float = 0.9999,
    ) -> None:
        if not 0 <= min_decay <= max_decay <= 1 or power < 0:
            raise UserError(f"EMA: 0 <= min_decay={min_decay} <= max_decay={max_decay} <= 1 and power >= 0")
        self.power, self.min_decay, self.max_decay = power, min_decay, max_decay
        self._parameters = parameters
        self._vector = parameters.values.detach().clone()
        self._averages = parameters.views(self._vector)

    def decay(self, step: int) -> float:
        """The decay beta after ``step`` earlier updates."""
        return float(min(max(1 - (1 + step) ** -self.power, self.min_decay), self.max_decay))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the model's parameters; ``step`` counts the gradient steps before this one, from 0."""
        self._vector.lerp_(self._parameters.values.detach(), 1 - self.decay(step))

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by parameter name: the weights of a policy, not copies."""
        return dict(self._averages)

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the averages of ``state_dict``."""
        if set(state) != set(self._averages):
            raise UserError("these EMA weights belong to a policy with other parameters")
        for name, average in self._averages.items():
            average.copy_(state[name])

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Set the model's parameters to the averages."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self._averages[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the ``with`` block the model has the averages, after it its own parameters, bit for bit."""
        values = self._parameters.values.detach()
        own = values.clone()
        values.copy_(self._vector)
        try:
            yield
        finally:
            values.copy_(own)
