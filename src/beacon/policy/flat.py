"""A model's parameters as parts of one vector: one operation for all of them, not one each."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves the parameters of a model into one vector, of which they are views from then on.

    A policy of half a million parameters has 145 tensors, most of them so small that calling an operation
    costs more than its arithmetic. Every parameter keeps its shape and its layout in memory. The model must
    stay on its device afterwards.
    """

    def __init__(self, model: nn.Module) -> None:
        """Move the parameters.

        Args:
            model: on its device, with the layouts in memory that it computes in.
        """
        self._parameters = list(model.parameters())
        self.names = [name for name, _ in model.named_parameters()]
        first = self._parameters[0]
        # To an optimiser all of them are one parameter.
        self.values = nn.Parameter(first.new_empty(sum(p.numel() for p in self._parameters)))
        self.values.grad = torch.zeros_like(self.values)
        self._gradients = list(self.views(self.values.grad).values())
        for parameter, view in zip(self._parameters, self.views(self.values).values(), strict=True):
            parameter.data = view.copy_(parameter.detach())

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """The parts of a vector as long as ``values`` that belong to each parameter, by its name."""
        parts = vector.detach().split([p.numel() for p in self._parameters])
        return {
            name: part.as_strided(p.shape, p.stride(), part.storage_offset())
            for name, part, p in zip(self.names, parts, self._parameters, strict=True)
        }

    def take_gradients(self) -> None:
        """Move the gradients of the parameters to ``values.grad``; zeros for a parameter that has none."""
        given = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        torch._foreach_copy_(self._gradients, given)
        for parameter in self._parameters:
            parameter.grad = None
