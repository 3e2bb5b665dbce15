"""What a run has: data, method, device, steps, in two lines."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from beacon.data import Windows
from beacon.data.domains import Domains
from beacon.training.config import TrainConfig


def summarize_run(
    config: TrainConfig,
    windows: Windows,
    domains: Domains,
    device: torch.device,
    policy: nn.Module,
    step: int = 0,
) -> str:
    """Two lines that say what is trained on what.

    Args:
        config: of the run.
        windows: all training windows.
        domains: names of the domains, in the order of the windows' numbers.
        device: where it is computed.
        policy: the networks.
        step: gradient steps that were done before.
    """
    counts = np.bincount(windows.domain, minlength=len(domains))
    data = [
        f"{name}{' (target)' if name == domains.target != 'target' else ''}: "
        f"{len(episodes)} demonstrations, {count} windows"
        for name, episodes, count in zip(domains.names, windows.sets, counts, strict=True)
    ]
    data += _decisions(config)
    optimization = config.optimization
    parameters = sum(parameter.numel() for parameter in policy.parameters())
    goes_on = f", going on after step {step}" if step else ""
    return (
        f"data: {'; '.join(data)}\n"
        f"training: method {config.method}, preset {config.preset}, {optimization.steps} steps of "
        f"{optimization.batch_size} windows, {parameters:,} parameters, on {device}{goes_on}"
    )


def _decisions(config: TrainConfig) -> list[str]:
    """What people decided about the demonstrations, where they did."""
    decisions = config.data.decisions
    if not decisions:
        return []
    dropped, kept = (sum(len(getattr(entry, name)) for entry in decisions) for name in ("dropped", "kept"))
    return [f"by decision {dropped} dropped and {kept} kept"]
