"""Random inputs of the right shapes."""

from __future__ import annotations

import torch
from torch import Tensor

from beacon.policy import ObservationSpec, PolicyConfig


def random_batch(
    spec: ObservationSpec, config: PolicyConfig, batch: int, seed: int = 0
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Images, proprioception and actions."""
    g = torch.Generator().manual_seed(seed)
    lead = (batch, config.obs_steps)
    images = {
        name: torch.randint(256, (*lead, *shape), generator=g, dtype=torch.uint8)
        for name, shape in spec.cameras.items()
    }
    proprio = {name: torch.rand(*lead, size, generator=g) * 2 - 1 for name, size in spec.proprio.items()}
    actions = torch.rand(batch, config.horizon, spec.action_dim, generator=g) * 2 - 1
    return images, proprio, actions
