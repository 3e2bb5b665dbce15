"""What windows look like before anything is learned: coarse pictures and proprioception as fixed features."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from beacon.data.windows import Windows
from beacon.methods.base import MethodContext
from beacon.weighting.discrepancy import DiscrepancyInputs
from beacon.weighting.discrepancy.peers import disagreement_factors

GRID = 8  # cells of a picture along either side
COMPONENTS = 32  # of the pictures' variation that are kept
PROPRIO = 0.5  # what a standard deviation of proprioception counts, in those of the pictures' components
FRAMES = 512  # that are in memory at a time


def looks(windows: Windows) -> torch.Tensor:
    """Features of every window, (N, D): principal components of its coarse pictures, and proprioception."""
    pictures, states = [], []
    for start in range(0, len(windows), FRAMES):
        batch = windows.gather(np.arange(start, min(start + FRAMES, len(windows))))
        pictures.append([_coarse(frames[:, -1]) for _, frames in sorted(batch.images.items())])
        states.append([state[:, -1] for _, state in sorted(batch.proprio.items())])
    parts = []
    if pictures[0]:
        parts.append(_components(torch.cat([torch.cat(cameras, dim=1) for cameras in pictures])))
    if states[0]:
        parts.append(PROPRIO * _standard(torch.cat([torch.cat(state, dim=1) for state in states])))
    return torch.cat(parts, dim=1).float()


def peer_factors(context: MethodContext) -> NDArray[np.float64]:
    """How much more than usual each source window's demonstration differs from what looks alike, (m,)."""
    windows = context.windows
    source, target = context.source_windows, context.target_windows
    features = looks(windows)
    actions = windows.gather(np.arange(len(windows)), images=False).actions.flatten(1)
    inputs = DiscrepancyInputs(
        source=features[source],
        target=features[target],
        source_domains=windows.domain[source].astype(np.int64),
        source_labels=tuple(context.domains[: context.target]),
        target_label=context.domains[context.target],
        source_episodes=windows.episode[source].astype(np.int64),
        target_episodes=windows.episode[target].astype(np.int64),
        source_actions=actions[source],
        target_actions=actions[target],
        seed=context.seed,
    )
    return disagreement_factors(inputs)


def _coarse(frames: torch.Tensor) -> torch.Tensor:
    """Pictures (B, H, W, 3) averaged over a coarse grid, (B, 3 · GRID²) from 0 to 1."""
    pooled: torch.Tensor = F.adaptive_avg_pool2d(frames.permute(0, 3, 1, 2).float(), GRID)
    return pooled.flatten(1) / 255


def _components(pictures: torch.Tensor) -> torch.Tensor:
    """The first principal components, with a mean variance of one."""
    centred = (pictures - pictures.mean(dim=0)).double()
    _, vectors = torch.linalg.eigh(centred.T @ centred)  # ascending
    kept: torch.Tensor = centred @ vectors[:, -COMPONENTS:]
    return kept / kept.std().clamp_min(1e-12)


def _standard(state: torch.Tensor) -> torch.Tensor:
    state = state.double()
    return (state - state.mean(dim=0)) / state.std(dim=0).clamp_min(1e-6)
