"""Optimiser and learning rate, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from beacon.errors import RunError
from beacon.training.config import OptimizationOptions


def learning_rate(step: int, options: OptimizationOptions) -> float:
    """Linear warm-up, then a cosine to zero, for the gradient step number ``step`` (from 0).

    >>> options = OptimizationOptions(steps=100, steps_per_epoch=10, warmup_steps=10, learning_rate=1.0)
    >>> [round(learning_rate(step, options), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    done = (step - options.warmup_steps) / max(1, options.steps - options.warmup_steps)
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(parameters: Iterable[nn.Parameter], options: OptimizationOptions) -> torch.optim.AdamW:
    """AdamW as one fused kernel over all parameters, on CPU and GPU alike."""
    return torch.optim.AdamW(
        parameters,
        lr=options.learning_rate,
        betas=options.betas,
        weight_decay=options.weight_decay,
        fused=True,
    )


def half_squared_norm(model: nn.Module) -> float:
    """R(θ) = ½‖θ‖² over all trainable parameters."""
    with torch.no_grad():
        norms = torch._foreach_norm([p for p in model.parameters() if p.requires_grad])
        return 0.5 * float(torch.stack(norms).double().square().sum())


def diverged(step: int, options: OptimizationOptions) -> RunError:
    """What to say of a run whose loss is not a number any more."""
    return RunError(
        f"the loss is no longer finite at step {step}; lower --learning-rate "
        f"(now {options.learning_rate}), or look at the data with `beacon data check`"
    )
