"""Demonstrations of high mutual information between states and actions, as in DemInf.

A demonstrator who acts by what is seen, and varied, has a high I(S; A) (Hejna et al. 2025, arXiv 2502.08623).
The k-nearest-neighbour estimator of Kraskov et al. (2004) says what each sample adds to it, in the latents of
two autoencoders, of states and of actions, within random batches:

    score = − mean over k of ψ(n_s) + ψ(n_a)

n_s and n_a count the samples of the batch, itself included, that are closer in s and in a than the k-th
neighbour in both, with the larger of both distances. The best share of the source demonstrations is kept, by
their mean score, and co-trained with the target at a ratio. It does not look at the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from beacon.errors import UserError
from beacon.methods.base import MethodContext
from beacon.methods.option_checks import refusal, require_at_least
from beacon.methods.selection import SelectedCoTraining, Vector, check_selection
from beacon.methods.vae import VaeTraining

if TYPE_CHECKING:
    from torch import Tensor

STATES, ACTIONS, BATCHES = 0, 1, 2  # streams of randomness


@dataclass(frozen=True)
class DemInfOptions:
    """Options of DemInf; defaults are its public code's where not said otherwise."""

    # Share of the source demonstrations that is kept; ours.
    keep_share: float = 0.5
    # Share of the source in a mini-batch; ours, as co-training.
    ratio: float = 0.9
    # Latents of a state, and their β; None: 16 and 0.01 with cameras, 12 and 0.05 without.
    state_latents: int | None = None
    state_beta: float | None = None
    # Latents of an action, and their β (the latter ours).
    action_latents: int = 6
    action_beta: float = 0.01
    # Actions of a window that count, from its first on. Relative actions are advised, as our tasks have them.
    actions: int = 1
    # Neighbours, from and to, over which the score is a mean.
    neighbors: tuple[int, int] = (5, 7)
    # Samples that are compared with each other.
    batch: int = 1024
    # Passes over the data, each with other batches.
    passes: int = 4
    # Scores beyond this percentile and its opposite count as that percentile.
    clip: float = 1.0
    # Training of both autoencoders.
    vae: VaeTraining = field(default_factory=VaeTraining)

    def __post_init__(self) -> None:
        check_selection(self.keep_share, self.ratio)
        low, high = self.neighbors
        if not 1 <= low <= high:
            raise refusal("neighbors", f"{low} {high}", "two numbers from 1 on, the second not smaller")
        require_at_least(1, action_latents=self.action_latents, actions=self.actions, passes=self.passes)
        require_at_least(1, state_latents=1 if self.state_latents is None else self.state_latents)
        require_at_least(high + 1, batch=self.batch)
        require_at_least(0, action_beta=self.action_beta, state_beta=self.state_beta or 0)
        if not 0 <= self.clip < 50:
            raise refusal("clip", self.clip, "at least 0 and below 50")


class DemInf(SelectedCoTraining):
    """Keep the source demonstrations whose actions say most about what was seen."""

    Options = DemInfOptions

    def __init__(self, options: DemInfOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        least = options.neighbors[1] + 1
        if len(context.source_windows) < least:
            raise UserError(
                f"--method deminf compares each source window with {least - 1} others, and there are "
                f"{len(context.source_windows)} source windows; take more, or smaller --neighbors"
            )

    def score(self, epoch: int) -> Vector:
        """What each source window adds to the mutual information, in standard deviations, (m,)."""
        states, actions = self._latents()
        options, seed, size = self.options, self.context.seed, len(states)
        ks = list(range(options.neighbors[0], options.neighbors[1] + 1))
        scores = np.zeros((options.passes, size))
        for number in range(options.passes):
            order = np.random.default_rng([seed, BATCHES, number]).permutation(size)
            for members in np.array_split(order, max(1, round(size / options.batch))):
                scores[number, members] = ksg_scores(states[members], actions[members], ks)
        limits = np.percentile(scores, [options.clip, 100 - options.clip])
        clipped = np.clip(scores, *limits)
        standard = (clipped - clipped.mean()) / max(float(clipped.std()), 1e-12)
        return np.asarray(standard.mean(axis=0))

    def _latents(self) -> tuple[Tensor, Tensor]:
        from beacon.data.image_features import ImageFeatures
        from beacon.methods.vae import standardised, vae_latents

        context, options = self.context, self.options
        source, cameras = context.source_windows, bool(context.windows.sets[0].images)
        latents = options.state_latents or (16 if cameras else 12)
        beta = options.state_beta if options.state_beta is not None else (0.01 if cameras else 0.05)
        seen = ImageFeatures().of(context.windows)[source]
        chunks = context.windows.gather(source, images=False).actions[:, : options.actions]
        taken = standardised(chunks.flatten(1))
        seed, training = context.seed, options.vae
        return (
            vae_latents(seen, latents, beta, training, seed, STATES),
            vae_latents(taken, options.action_latents, options.action_beta, training, seed, ACTIONS),
        )


def ksg_scores(states: Tensor, actions: Tensor, neighbors: list[int]) -> Vector:
    """What each of B samples adds to the mutual information, up to a constant: −(ψ(n_s) + ψ(n_a)), (B,).

    ψ(k) + ψ(B) plus the mean of it is the estimate of Kraskov et al. (2004, eq. 8).

    Args:
        states: (B, S).
        actions: (B, A).
        neighbors: the k to take the mean over.
    """
    import torch

    between_states, between_actions = (torch.cdist(z.double(), z.double()) for z in (states, actions))
    both = torch.maximum(between_states, between_actions)
    radius = both.sort(dim=1).values[:, [min(k, len(both) - 1) for k in neighbors]]  # itself is the first
    total = torch.zeros(len(both), dtype=torch.float64)
    for k in range(radius.shape[1]):
        for distances in (between_states, between_actions):
            # Among duplicates nobody is closer, not even the sample itself.
            count = (distances < radius[:, k : k + 1]).sum(dim=1).clamp_min(1)
            total -= torch.digamma(count.double())
    return np.asarray((total / radius.shape[1]).numpy())
