"""What windows look like before anything is learned: coarse pictures and proprioception as fixed features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from beacon.data.windows import Windows

FRAMES = 512  # that are in memory at a time


@dataclass(frozen=True)
class ImageFeatures:
    """Principal components of coarse pictures, and proprioception, as features of a window."""

    # Cells of a picture along either side.
    grid: int = 8
    # Components of the pictures' variation that are kept.
    components: int = 32
    # What a standard deviation of proprioception counts, in those of the pictures' components.
    proprio_weight: float = 0.5

    def __post_init__(self) -> None:
        for name in ("grid", "components"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not self.proprio_weight >= 0:
            raise ValueError(f"proprio_weight: must be at least 0, got {self.proprio_weight}")

    def of(self, windows: Windows) -> torch.Tensor:
        """Features of every window, (N, D), by its newest frame."""
        import torch

        pictures, states = [], []
        for start in range(0, len(windows), FRAMES):
            batch = windows.gather(np.arange(start, min(start + FRAMES, len(windows))))
            pictures.append([self._coarse(frames[:, -1]) for _, frames in sorted(batch.images.items())])
            states.append([state[:, -1] for _, state in sorted(batch.proprio.items())])
        parts = []
        if pictures[0]:
            parts.append(self._components(torch.cat([torch.cat(cameras, dim=1) for cameras in pictures])))
        if states[0]:
            joined = torch.cat([torch.cat(state, dim=1) for state in states])
            parts.append(self.proprio_weight * _standardized(joined))
        return torch.cat(parts, dim=1).float()

    def _coarse(self, frames: torch.Tensor) -> torch.Tensor:
        """Pictures (B, H, W, C) averaged over a coarse grid, (B, C · grid²) from 0 to 1."""
        import torch.nn.functional as F

        pooled: torch.Tensor = F.adaptive_avg_pool2d(frames.permute(0, 3, 1, 2).float(), self.grid)
        return pooled.flatten(1) / 255

    def _components(self, pictures: torch.Tensor) -> torch.Tensor:
        """The first principal components, with a mean variance of one."""
        import torch

        centred = (pictures - pictures.mean(dim=0)).double()
        _, vectors = torch.linalg.eigh(centred.T @ centred)  # ascending
        kept: torch.Tensor = centred @ vectors[:, -self.components :]
        return kept / kept.std().clamp_min(1e-12)


def _standardized(state: torch.Tensor) -> torch.Tensor:
    state = state.double()
    return (state - state.mean(dim=0)) / state.std(dim=0).clamp_min(1e-6)
