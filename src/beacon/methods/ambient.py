"""Source data at noise levels where its actions look like the target's, as in Ambient Diffusion Policy.

A noise level t is drawn first, then the data: the target teaches at every level, a source only from t_min on,
where the coarse plan of both is the same, and optionally below t_max, where local motion is (Wei et al. 2026,
arXiv 2606.12365). Loss, network and sampling of actions stay as they are.

    t_min = inf{t : c(t) > 1/2 − ε},   c(t) = ½ E_source[g(A_t, t)] + ½ E_target[1 − g(A_t, t)]

g is a classifier of noised action chunks and their level, 1 for the target, trained on equal numbers of both.
For the best possible g both terms are equal, so c is the paper's mean of g over the source. With few target
demonstrations g is too sure of what it has seen: it is asked about demonstrations that were held out, and the
mean of both terms is one half whenever it cannot tell, whichever side it prefers. Both are our choices.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.balanced import balanced_batches, check_share, target_count
from beacon.methods.base import EpochReport, Indices, Method, MethodContext
from beacon.methods.noise_confusion import NoiseSchedule, Vector, noise_confusion
from beacon.methods.option_checks import refusal, require_at_least, require_positive, require_within

if TYPE_CHECKING:
    from torch import Tensor

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class AmbientOptions:
    """Options of Ambient Diffusion Policy. The paper's code is not public; what it leaves open is ours."""

    # Share of the source in what is cloned at noise levels where all sources may teach; ours, as co-training.
    ratio: float = 0.9
    # Noise level from which a source may teach, as a share of all levels; None: found by the classifier, for
    # each source. Paper: found, or swept.
    t_min: float | None = None
    # Noise level below which a source may teach, too, as a share of all levels; paper: optional.
    t_max: float = 0.0
    # How far from one half counts as not to be told apart; ours.
    epsilon: float = 0.05
    # Share of target windows in a mini-batch, so that there are enough at low noise; ours. What is cloned
    # stays as --ratio says: losses are weighted accordingly.
    target_share: float = 0.5
    # Hidden units of the classifier, in each of two layers; ours.
    hidden: int = 128
    # Gradient steps of the classifier, their size (Adam) and their batch, half of it target; ours.
    classifier_steps: int = 500
    classifier_rate: float = 1e-3
    classifier_batch: int = 256
    # Parts of the demonstrations of which one at a time is held out; ours.
    folds: int = 5
    # Noise levels at which the domains are compared, evenly spread; ours.
    levels: int = 20
    # Windows of each side that are held against each other, at most; ours.
    windows: int = 2048

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < 1:
            raise refusal("ratio", self.ratio, "at least 0 and below 1")
        require_within(0, 1, t_min=self.t_min or 0, t_max=self.t_max)
        if not 0 < self.epsilon < 0.5:
            raise refusal("epsilon", self.epsilon, "above 0 and below 0.5")
        check_share(self.target_share)
        require_positive(classifier_rate=self.classifier_rate)
        require_at_least(1, hidden=self.hidden, classifier_steps=self.classifier_steps, windows=self.windows)
        require_at_least(2, classifier_batch=self.classifier_batch, folds=self.folds, levels=self.levels)


class Ambient(Method):
    """Clone the target at every noise level, and a source where its noised actions look like the target's."""

    Options = AmbientOptions

    def __init__(self, options: AmbientOptions, context: MethodContext) -> None:
        import torch

        super().__init__(options, context)
        if options.t_min is None:
            self._check_demonstrations()
        self._targets = target_count(context, options.target_share, most=1 - 2 / context.batch_size)
        self.t_min: Vector | None = None  # of every source, as a share of the noise levels
        self._domain = torch.from_numpy(context.windows.domain.astype(np.int64))  # of every window
        self._table: Tensor | None = None  # what a window of a domain weighs at a level, (domains, levels)

    def _check_demonstrations(self) -> None:
        """Held-out demonstrations need two on either side."""
        counts = np.bincount(self.context.windows.episode_domain, minlength=len(self.context.domains))
        for name, count in zip(self.context.domains.names, counts.tolist(), strict=True):
            if count < 2:
                raise UserError(
                    f"--method ambient: {name} is a single demonstration, and t_min is found on "
                    "demonstrations that are held out; say --t-min SHARE"
                )

    def batches(self, epoch: int) -> Indices:
        """The same number of target windows in every mini-batch, the rest source, all drawn uniformly."""
        return balanced_batches(self.context, self._targets, epoch)

    def noise_weights(self, index: Tensor, timesteps: Tensor) -> Tensor | None:
        """At every noise level, those who may teach share one weight, in the proportion of the ratio."""
        if self._table is None:
            return None
        device = timesteps.device
        self._table, self._domain = self._table.to(device), self._domain.to(device)  # once: no step waits
        return self._table[self._domain[index.to(device)].unsqueeze(0), timesteps]

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Find t_min of every source, once; a run that is resumed knows it."""
        context, options = self.context, self.options
        if self.t_min is not None:
            return None
        sources, scalars = len(context.domains.sources), dict[str, float]()
        if options.t_min is not None:
            self.t_min = np.full(sources, options.t_min)
        else:
            self.t_min, scalars = self._find()
        self._table = self._make_table()
        for name, t_min in zip(context.domains.sources, self.t_min.tolist(), strict=True):
            scalars[f"t_min/{name}"] = t_min
            LOG.info(f"{name} teaches from {t_min:.2f} of the noise levels on")
        weights = self._table.double().mean(dim=1).numpy()[context.windows.domain]
        return EpochReport(scalars=scalars, weights=weights)

    def _find(self) -> tuple[Vector, dict[str, float]]:
        context, options = self.context, self.options
        present = context.present_policy()
        schedule = NoiseSchedule.of(present.policy)
        t_min, scalars = np.zeros(len(context.domains.sources)), {}
        for number, name in enumerate(context.domains.sources):
            index, labels = self._samples(number)
            chunks = present.actions(index).flatten(1).float().cpu()
            episodes = context.windows.episode[index].astype(np.int64)
            keys = (context.seed, number)
            levels, confusion = noise_confusion(chunks, labels, episodes, schedule, options, keys)
            t_min[number] = first_level(levels, confusion, options.epsilon)
            scalars[f"confusion/{name}/least_noise"] = float(confusion[0])
            scalars[f"confusion/{name}/mean"] = float(confusion.mean())
        return t_min, scalars

    def _samples(self, domain: int) -> tuple[Indices, Vector]:
        """Windows of a source and of the target, and which is which: 1 is the target's."""
        rng = np.random.default_rng([self.context.seed, domain])
        sides = []
        for number in (domain, self.context.target):
            members = np.flatnonzero(self.context.windows.domain == number)
            count = min(len(members), self.options.windows)
            sides.append(np.sort(rng.choice(members, count, replace=False)))
        return np.concatenate(sides), np.repeat([0.0, 1.0], [len(side) for side in sides])

    def _make_table(self) -> Tensor:
        import torch

        context, options = self.context, self.options
        assert self.t_min is not None
        size = context.present_policy().policy.config.train_timesteps
        level = np.arange(size) / size
        teaches = (level >= self.t_min[:, None] - 1e-9) | (level < options.t_max)  # (sources, levels)
        of_source = np.bincount(context.windows.domain, minlength=len(context.domains))[:-1]
        cloned = options.ratio * (of_source / of_source.sum())[:, None] * teaches
        available = cloned.sum(axis=0) + (1 - options.ratio)  # of the mass at every level
        drawn = self._targets / context.batch_size
        rows = [*(options.ratio / (1 - drawn) * teaches), np.full(size, (1 - options.ratio) / drawn)]
        return torch.from_numpy((np.stack(rows) / available).astype(np.float32))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """t_min of every source, once it is known."""
        return {} if self.t_min is None else {"t_min": self.t_min.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if not state:
            return
        if set(state) != {"t_min"} or np.shape(state["t_min"]) != (len(self.context.domains.sources),):
            raise UserError("the checkpoint belongs to another method or to other domains")
        self.t_min = np.array(state["t_min"], np.float64)
        self._table = self._make_table()


def first_level(levels: Vector, confusion: Vector, epsilon: float) -> float:
    """inf{t : c(t) > 1/2 − ε}; one, beyond all levels, where there is none.

    >>> first_level(np.array([0.0, 0.25, 0.5, 0.75]), np.array([0.1, 0.3, 0.46, 0.5]), epsilon=0.05)
    0.5
    """
    enough = np.flatnonzero(confusion > 0.5 - epsilon)
    return float(levels[enough[0]]) if len(enough) else 1.0
