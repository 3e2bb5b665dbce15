"""g of every source domain, from how well its action chunks are told from the target's given what is seen.

For every target window, source windows are found that the policy sees alike. A classifier sees the embedding
of the target window and a noised action chunk: its own, or that of a source window. The embedding is the same
for both, so it says nothing about the domain, and what is told apart are actions given the observation.

    told_b = max(0, 1 − (c_b + ε) / c°_b)        cost of a bin b of noise levels

c is the probability of the wrong side, near 0 told apart, 1/2 not at all, on demonstrations that were held
out. No two windows are seen exactly alike, and that shows in their actions. So c° is the same probability
where random demonstrations of the source itself, as many as the target has, take the target's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, State
from beacon.methods.beacon.noise.base import (
    NOISE_LEVELS,
    BuiltNoiseLevels,
    Learned,
    NoiseEvidence,
    Vector,
    refuse_by_name,
    solve_levels,
)
from beacon.methods.beacon.noise.coverage import coverage_of, move_to_source
from beacon.methods.noise_confusion import (
    Labelled,
    NoiseSchedule,
    held_out_confusion,
    split_demonstrations,
)
from beacon.methods.option_checks import require_at_least, require_positive

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.weighting import BuiltCheck

STREAM = 27  # of randomness


@NOISE_LEVELS.register("by-domain")
@dataclass(frozen=True)
class ByDomain(Learned):
    """A source is silent at noise levels where its actions, given what is seen, are not the target's.

    Where the target has no windows nearby, it teaches at all levels alike.
    """

    # λ2 times the mean weight of a source window, as the objective has it: the cost is in its units.
    smoothness: float = 0.05
    # How far from what a source has with itself counts as not to be told apart, ε.
    epsilon: float = 0.01
    # Epochs between two comparisons.
    every: int = 10
    # Source windows that a target window is compared with.
    partners: int = 3
    # Random parts of the source in the target's place.
    controls: int = 2
    # Target windows that are compared, at most.
    windows: int = 1024
    # Hidden units of the classifier, in each of two layers.
    hidden: int = 128
    # Gradient steps of the classifier, their size (Adam) and their batch, half of it target.
    classifier_steps: int = 600
    classifier_rate: float = 1e-3
    classifier_batch: int = 256
    # Parts of the demonstrations of which one at a time is held out.
    folds: int = 3
    # Noise levels at which the sides are compared, evenly spread.
    levels: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_by_name(require_positive, classifier_rate=self.classifier_rate)
        refuse_by_name(require_at_least, 0, epsilon=self.epsilon)
        counts = ("every", "partners", "controls", "windows", "hidden", "classifier_steps")
        refuse_by_name(require_at_least, 1, **{name: getattr(self, name) for name in counts})
        refuse_by_name(require_at_least, 2, classifier_batch=self.classifier_batch, folds=self.folds)
        refuse_by_name(require_at_least, self.bins, levels=self.levels)

    def build(self, context: MethodContext, checks: Sequence[BuiltCheck]) -> BuiltNoiseLevels:
        """The g of one run."""
        return _ByDomain(self, context)


class _ByDomain(BuiltNoiseLevels):
    def __init__(self, options: ByDomain, context: MethodContext) -> None:
        domains = context.windows.domain.astype(np.int64)
        super().__init__(context, options.bins, domains, len(context.domains))
        self._options, self._compared = options, -1  # the epoch of the last comparison
        counts = np.bincount(context.windows.episode_domain, minlength=len(context.domains))
        for name, count, least in zip(
            context.domains.names, counts.tolist(), [4] * context.target + [2], strict=True
        ):
            if count < least:
                raise UserError(
                    f"--noise-levels by-domain: {name} has {count} demonstrations and needs {least}, "
                    "because some are held out"
                )

    def update(self, evidence: NoiseEvidence) -> dict[str, float]:
        """Compare every source with the target where it is time; how much the target covers, always."""
        options, context, epoch = self._options, self.context, evidence.epoch
        first = self.first_epoch(options.begin)
        if epoch < first:
            return {}
        rows, scalars = self.rows.copy(), dict[str, float]()
        if self._compared < 0 or epoch - self._compared >= options.every:
            self._compared = epoch
            for number, name in enumerate(context.domains.sources):
                told = self._told_apart(number, evidence)
                rows[number] = solve_levels(told.costs[None], options.smoothness)[0]
                for what, values in zip(("told", "confusion", "usual_confusion"), told, strict=True):
                    scalars |= {f"noise/{name}/{what}_{b}": float(value) for b, value in enumerate(values)}
        share = coverage_of(context, evidence.embeddings, options.neighbors, options.draws, epoch)
        self.set(rows, share)
        return scalars | self.scalars()

    def state_dict(self) -> State:
        """Rows, κ, and when the last comparison was."""
        return super().state_dict() | {"compared": np.array(self._compared)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        super().load_state_dict(state)
        self._compared = int(state["compared"])

    def _told_apart(self, domain: int, evidence: NoiseEvidence) -> ToldApart:
        context = self.context
        windows, present = context.windows, context.present_policy()
        comparison = Comparison(
            actions=lambda index: present.actions(index).flatten(1).float().cpu(),
            embeddings=evidence.embeddings.float().cpu(),
            episodes=windows.episode.astype(np.int64),
            schedule=NoiseSchedule.of(present.policy),
            options=self._options,
        )
        source = np.flatnonzero(windows.domain == domain)
        keys = (context.seed, STREAM, evidence.epoch, domain)
        return comparison.told_apart(context.target_windows, source, keys)


class ToldApart(NamedTuple):
    """What a comparison found in every bin of noise levels, each (bins,)."""

    costs: Vector  # from 0, as well as the source is told from itself, to 1
    confusion: Vector  # c
    usual_confusion: Vector  # c°


@dataclass(frozen=True, eq=False)
class Comparison:
    """Actions of two sides given what is seen.

    Args:
        actions: action chunks of windows as the policy sees them, (B, horizon · A).
        embeddings: of all windows, (N, F).
        episodes: demonstration of every window, (N,).
        schedule: of the noise.
        options: of the comparison.
    """

    actions: Callable[[Indices], Tensor]
    embeddings: Tensor
    episodes: Indices
    schedule: NoiseSchedule
    options: ByDomain

    def told_apart(self, target: Indices, source: Indices, keys: tuple[int, ...]) -> ToldApart:
        """How much better a source is told from the target than from itself.

        Args:
            target: windows of the target.
            source: windows of one source.
            keys: decide everything that is drawn at random.
        """
        rng = np.random.default_rng(keys)
        demos = np.unique(self.episodes[source])
        size = min(len(np.unique(self.episodes[target])), len(demos) // 2)
        controls = []
        for number in range(self.options.controls):
            drawn = np.isin(self.episodes[source], rng.permutation(demos)[:size])
            controls.append(self._by_bin(source[drawn], source[~drawn], (*keys, number + 1)))
        measured, usual = self._by_bin(target, source, (*keys, 0)), np.asarray(np.mean(controls, axis=0))
        costs = np.asarray(np.maximum(0.0, 1 - (measured + self.options.epsilon) / usual))
        return ToldApart(costs, measured, usual)

    def _by_bin(self, ones: Indices, zeros: Indices, keys: tuple[int, ...]) -> Vector:
        """Mean confusion in every bin of noise levels."""
        levels, confusion = self.confusion(ones, zeros, keys)
        bins = self.options.bins
        place = np.minimum((levels * bins + 1e-9).astype(np.int64), bins - 1)
        return np.asarray(np.bincount(place, confusion, bins) / np.bincount(place, minlength=bins))

    def confusion(self, ones: Indices, zeros: Indices, keys: tuple[int, ...]) -> tuple[Vector, Vector]:
        """Noise levels as shares of all, and the probability of the wrong side at each.

        Args:
            ones: windows of the side whose embeddings are seen.
            zeros: windows of the other.
            keys: decide everything that is drawn at random.
        """
        import torch

        rng = np.random.default_rng(keys)
        sides = [self.episodes[zeros], self.episodes[ones]]
        part = split_demonstrations(sides, self.options.folds, rng)
        fold_zero, fold_one = (part[side] for side in sides)
        if len(ones) > self.options.windows:
            kept = np.sort(rng.choice(len(ones), self.options.windows, replace=False))
            ones, fold_one = ones[kept], fold_one[kept]
        partners = self._partners(ones, fold_one, zeros, fold_zero)  # (n, k)
        seen = _standardized(self.embeddings[ones])
        count = partners.shape[1]
        samples = Labelled(
            chunks=self.actions(np.concatenate([ones, partners.reshape(-1)])),
            labels=np.repeat([1.0, 0.0], [len(ones), partners.size]),
            conditions=torch.cat([seen, seen.repeat_interleave(count, dim=0)]),
        )
        fold = np.concatenate([fold_one, np.repeat(fold_one, count)])
        return held_out_confusion(samples, fold, self.schedule, self.options, keys)

    def _partners(self, ones: Indices, fold_one: Indices, zeros: Indices, fold_zero: Indices) -> Indices:
        """Windows of the other side, of the same part, that are seen alike, (n, k)."""
        from beacon.weighting.discrepancy.neighbors import nearest

        moved = move_to_source(self.embeddings[zeros], self.embeddings[ones])
        counts = np.bincount(fold_zero)
        partners = np.zeros((len(ones), min(self.options.partners, int(counts.min()))), np.int64)
        for part in range(len(counts)):
            asking, answering = np.flatnonzero(fold_one == part), zeros[fold_zero == part]
            neighbors = nearest(moved[asking], self.embeddings[answering], partners.shape[1])
            partners[asking] = answering[neighbors.indices.numpy()]
        return partners


def _standardized(features: Tensor) -> Tensor:
    """Every feature with mean zero and a standard deviation of one; constant ones are zero."""
    centred = features - features.mean(dim=0)
    spread = centred.std(dim=0, correction=0)
    return centred / spread.where(spread > 1e-9, spread.new_tensor(float("inf")))
