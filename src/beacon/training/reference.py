"""Policies that a method needs for comparison: the run's own kind, trained apart, and kept with the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from beacon.data import WindowBatch
from beacon.errors import RunError
from beacon.files import replacing
from beacon.methods import Measurements
from beacon.methods.base import Indices
from beacon.methods.sampling import shuffled
from beacon.policy import DiffusionPolicy
from beacon.policy.checkpoint import load_weights, save_tensors
from beacon.training.batch_loader import BatchLoader
from beacon.training.config import OptimizationOptions
from beacon.training.optimization import learning_rate, make_optimizer


@dataclass(frozen=True, eq=False)
class TrainedReference:
    """A policy and what it says of windows; see `beacon.methods.base.ReferencePolicy`."""

    policy: DiffusionPolicy
    measure: Callable[[Indices, int, int], Measurements]
    actions: Callable[[Indices], Tensor]


def fit_reference(
    policy: DiffusionPolicy,
    losses: Callable[[WindowBatch, int], Tensor],
    loader: BatchLoader,
    members: Indices,
    steps: int,
    optimization: OptimizationOptions,
    file: Path,
) -> None:
    """Train ``policy`` on the windows ``members`` alone, or load what ``file`` has kept of it.

    Args:
        policy: newly made; left in evaluation mode.
        losses: (mini-batch, step) -> every sample's loss.
        loader: gathers mini-batches.
        members: windows to train on.
        steps: gradient steps, with the run's schedule shrunk to them.
        optimization: the run's own, its bound on gradients included.
        file: where the parameters are kept; appears whole or not at all.
    """
    if file.exists():
        load_weights(policy, file)
        policy.eval()
        return
    options = replace(
        optimization,
        steps=steps,
        steps_per_epoch=steps,
        warmup_steps=min(optimization.warmup_steps, steps // 10),
    )
    optimizer = make_optimizer(policy.parameters(), options)
    batches = shuffled(members, 0, steps * options.batch_size, options.seed)
    policy.train()
    loss = None
    for step, batch in enumerate(loader(batches.reshape(steps, options.batch_size))):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        loss = losses(batch, step).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if options.gradient_clip is not None:  # losses are not weighted here: the bound is in units of one
            torch.nn.utils.clip_grad_norm_(policy.parameters(), options.gradient_clip)
        optimizer.step()
    if loss is None or not np.isfinite(loss.item()):
        raise RunError(f"the loss of the reference policy is not finite after {steps} steps")
    policy.eval()
    with replacing(file) as temporary:
        save_tensors(temporary, policy.state_dict())
