"""How well noised action chunks of two sides are told apart, noise level by noise level.

A small classifier sees a chunk with the noise of its level, features of the level and, where there are some,
features of what was observed. It is asked about samples that it was not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from beacon.methods.base import Indices

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from beacon.policy import DiffusionPolicy

Vector = NDArray[np.float64]
INITIAL, TRAINING, ASKING = 0, 1, 2  # streams of randomness
STEP_FEATURES = 16  # of the noise level, for the classifier


class ClassifierOptions(Protocol):
    """Options that decide a classifier and what it is asked."""

    @property
    def hidden(self) -> int:
        """Units of each of two layers."""
        ...

    @property
    def classifier_steps(self) -> int:
        """Gradient steps."""
        ...

    @property
    def classifier_rate(self) -> float:
        """Their size (Adam)."""
        ...

    @property
    def classifier_batch(self) -> int:
        """Samples of a step, half of them of either side."""
        ...

    @property
    def folds(self) -> int:
        """Parts of which one at a time is held out."""
        ...

    @property
    def levels(self) -> int:
        """Noise levels at which the sides are compared, evenly spread."""
        ...


class Labelled(NamedTuple):
    """Samples of two sides.

    Args:
        chunks: action chunks as the policy sees them, (B, horizon · A).
        labels: 1 for the target's side, 0 for the other, (B,).
        conditions: features of what was observed, (B, C); None: actions alone.
    """

    chunks: Tensor
    labels: Vector
    conditions: Tensor | None = None

    def inputs(self, rows: Tensor, level: Tensor, schedule: NoiseSchedule, draw: torch.Generator) -> Tensor:
        """What the classifier sees of some rows at some levels."""
        import torch

        seen = schedule.inputs(self.chunks[rows], level, draw)
        return seen if self.conditions is None else torch.cat([seen, self.conditions[rows]], dim=1)

    @property
    def width(self) -> int:
        """How many numbers that is."""
        conditions = 0 if self.conditions is None else self.conditions.shape[1]
        return int(self.chunks.shape[1]) + STEP_FEATURES + conditions


class NoiseSchedule(NamedTuple):
    """How much of a chunk and how much noise there is at every level, each (levels,)."""

    signal: Tensor
    noise: Tensor

    @classmethod
    def of(cls, policy: DiffusionPolicy) -> NoiseSchedule:
        """That of a policy, on the CPU."""
        return cls(policy.signal.cpu(), policy.noise.cpu())

    def inputs(self, chunks: Tensor, level: Tensor, draw: torch.Generator) -> Tensor:
        """What the classifier sees: chunks with the noise of their levels, and features of the levels."""
        import torch

        from beacon.policy.denoiser import step_embedding

        drawn = torch.randn(chunks.shape, generator=draw)
        noised = self.signal[level, None] * chunks + self.noise[level, None] * drawn
        return torch.cat([noised, step_embedding(level, STEP_FEATURES)], dim=1)


def noise_confusion(
    chunks: Tensor,
    labels: Vector,
    episodes: Indices,
    schedule: NoiseSchedule,
    options: ClassifierOptions,
    keys: tuple[int, ...],
) -> tuple[Vector, Vector]:
    """Noise levels as shares of all, and c at each of them: near 0 told apart, 1/2 not at all.

    Args:
        chunks: action chunks as the policy sees them, (B, horizon · A).
        labels: 1 for the target's, 0 for the source's, (B,).
        episodes: whose demonstration each is of, (B,).
        schedule: of the noise.
        options: of the classifier.
        keys: decide everything that is drawn at random.
    """
    sides = [episodes[labels == side] for side in (0.0, 1.0)]
    part = split_demonstrations(sides, options.folds, np.random.default_rng(keys))
    return held_out_confusion(Labelled(chunks, labels), part[episodes], schedule, options, keys)


def held_out_confusion(
    samples: Labelled,
    fold: Indices,
    schedule: NoiseSchedule,
    options: ClassifierOptions,
    keys: tuple[int, ...],
) -> tuple[Vector, Vector]:
    """The same of samples whose parts are known.

    Args:
        samples: of both sides.
        fold: the part that each is in, (B,); each part is asked about after training on the others.
        schedule: of the noise.
        options: of the classifier.
        keys: decide everything that is drawn at random.
    """
    import torch

    from beacon.randomness import generator

    size, labels = len(schedule.signal), samples.labels
    levels = np.unique(np.linspace(0, size - 1, options.levels).round().astype(np.int64))
    wrong = np.zeros((len(levels), len(labels)))  # probability of the wrong side
    for number in range(int(fold.max()) + 1):
        learn, asked = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        classifier = _train_classifier(samples, learn, schedule, options, (*keys, number))
        rows = torch.from_numpy(asked)
        for row, level in enumerate(levels.tolist()):
            draw = generator(*keys, number, ASKING, level)
            with torch.no_grad():
                inputs = samples.inputs(rows, torch.full((len(asked),), level), schedule, draw)
                of_target = torch.sigmoid(classifier(inputs).squeeze(1)).double().numpy()
            wrong[row, asked] = np.where(labels[asked] == 1, 1 - of_target, of_target)
    on_target = labels == 1
    return levels / size, (wrong[:, on_target].mean(axis=1) + wrong[:, ~on_target].mean(axis=1)) / 2


def split_demonstrations(sides: Sequence[Indices], folds: int, rng: np.random.Generator) -> Indices:
    """The part that each demonstration is in, by its number: both sides are in every part.

    Args:
        sides: demonstrations of the windows of either side.
        folds: parts, at most; fewer where a side has fewer demonstrations.
        rng: decides who is with whom.
    """
    demos = [np.unique(side) for side in sides]
    count = min(folds, *(len(side) for side in demos))
    part = np.zeros(max(int(side.max()) for side in demos) + 1, np.int64)
    for side in demos:
        part[rng.permutation(side)] = np.arange(len(side)) % count
    return part


def _train_classifier(
    samples: Labelled,
    learn: Indices,
    schedule: NoiseSchedule,
    options: ClassifierOptions,
    keys: tuple[int, ...],
) -> nn.Module:
    import torch
    import torch.nn.functional as F

    from beacon.methods.networks import make_mlp
    from beacon.randomness import generator

    classifier = make_mlp((samples.width, options.hidden, options.hidden, 1), *keys, INITIAL)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=options.classifier_rate)
    sides = [torch.from_numpy(learn[samples.labels[learn] == side]) for side in (0.0, 1.0)]
    half = options.classifier_batch // 2
    truth = torch.cat([torch.zeros(half), torch.ones(half)])
    for step in range(options.classifier_steps):
        draw = generator(*keys, TRAINING, step)
        chosen = torch.cat([side[torch.randint(len(side), (half,), generator=draw)] for side in sides])
        level = torch.randint(len(schedule.signal), (2 * half,), generator=draw)
        logits = classifier(samples.inputs(chosen, level, schedule, draw)).squeeze(1)
        optimizer.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(logits, truth).backward()
        optimizer.step()
    return classifier
