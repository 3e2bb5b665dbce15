"""What methods that choose source data share: score it, keep the best share, co-train with the target."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.balanced import check_ratio
from beacon.methods.base import EpochReport, Indices, Method, MethodContext
from beacon.methods.option_checks import refusal
from beacon.methods.sampling import mixed

LOG = logging.getLogger(__name__)
Vector = NDArray[np.float64]


def check_selection(keep_share: float, ratio: float) -> None:
    """Refuse shares that are none: of the source that is kept, and of the source in a mini-batch."""
    if not 0 < keep_share <= 1:
        raise refusal("keep_share", keep_share, "above 0 and at most 1")
    check_ratio(ratio)


def demo_means(scores: Vector, episodes: Indices) -> Vector:
    """Every sample's score replaced by the mean over its demonstration.

    >>> demo_means(np.array([1.0, 3.0, 5.0]), np.array([4, 4, 9]))
    array([2., 2., 5.])
    """
    _, row = np.unique(episodes, return_inverse=True)
    return np.asarray((np.bincount(row, weights=scores) / np.bincount(row))[row])


def top_share(scores: Vector, share: float, groups: Indices) -> NDArray[np.bool_]:
    """Which samples are in the ``share`` of the groups with the best scores, at least one group.

    Args:
        scores: of every sample, the same within a group.
        share: of the groups that is kept.
        groups: numbers of demonstrations, or of the samples themselves. Of equals, the first are kept.

    >>> top_share(np.array([2.0, 2.0, 5.0, 1.0]), 0.5, np.array([0, 0, 1, 2]))
    array([ True,  True,  True, False])
    """
    _, first, row = np.unique(groups, return_index=True, return_inverse=True)
    count = max(1, round(share * len(first)))
    kept = np.zeros(len(first), bool)
    kept[np.argsort(-scores[first], kind="stable")[:count]] = True
    return np.asarray(kept[row])


class SelectedCoTraining(Method):
    """Score the source windows, keep the best share, and draw source and target at a fixed ratio.

    Subclasses say what the score is and when it is asked for. Their options have ``keep_share``, the share
    of the source that is kept, and ``ratio``, the share of the source in a mini-batch. Several sources are
    ranked together.
    """

    def __init__(self, options: Any, context: MethodContext) -> None:
        super().__init__(options, context)
        self.scores: Vector | None = None  # of the source windows, in their order
        self._kept: Indices = context.source_windows

    @property
    def by_demo(self) -> bool:
        """Whether whole demonstrations are kept or left out, by their mean score."""
        return True

    def is_due(self, epoch: int) -> bool:
        """Whether the source is scored before this epoch; by default once, before the first."""
        return self.scores is None

    @abstractmethod
    def score(self, epoch: int) -> Vector:
        """How much each source window is worth, (m,); higher is better."""

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Score the source when it is due, and say what is kept."""
        if not self.is_due(epoch):
            return None
        scores = self.score(epoch)
        groups = self._groups()
        self._take_up(demo_means(scores, groups))
        total, kept = len(np.unique(groups)), len(np.unique(groups[self._is_kept()]))
        LOG.info(f"{kept} of {total} source {'demonstrations' if self.by_demo else 'windows'} are kept")
        return EpochReport(scalars=self._scalars(scores), weights=self._draw_weights())

    def batches(self, epoch: int) -> Indices:
        """Kept source windows and target windows at the ratio; before the first score all of the source."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        drawn = mixed(self._kept, context.target_windows, self.options.ratio, count, context.seed, epoch)
        return drawn.reshape(shape)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The scores, once they are known: they say what is kept."""
        return {} if self.scores is None else {"scores": self.scores.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if not state:
            return
        if set(state) != {"scores"} or np.shape(state["scores"]) != self.context.source_windows.shape:
            raise UserError("the checkpoint belongs to another method or to other data")
        self._take_up(np.array(state["scores"], np.float64))

    def _groups(self) -> Indices:
        """What is kept or left out as a whole, a number per source window."""
        source = self.context.source_windows
        return self.context.windows.episode[source].astype(np.int64) if self.by_demo else source

    def _take_up(self, scores: Vector) -> None:
        self.scores = scores
        self._kept = self.context.source_windows[self._is_kept()]

    def _is_kept(self) -> NDArray[np.bool_]:
        assert self.scores is not None
        return top_share(self.scores, self.options.keep_share, self._groups())

    def _scalars(self, scores: Vector) -> dict[str, float]:
        context = self.context
        domain, kept = context.windows.domain[context.source_windows], self._is_kept()
        scalars = {f"score/quantile_{level}": float(np.quantile(scores, level)) for level in (0.1, 0.5, 0.9)}
        for number, name in enumerate(context.domains.sources):
            scalars[f"score/mean/{name}"] = float(scores[domain == number].mean())
            scalars[f"kept/{name}"] = float(kept[domain == number].mean())
        return scalars

    def _draw_weights(self) -> Vector:
        """How often each window is drawn, one on average."""
        size, ratio = len(self.context.windows), self.options.ratio
        weights = np.zeros(size)
        weights[self._kept] = ratio * size / len(self._kept)
        weights[self.context.target_windows] = (1 - ratio) * size / len(self.context.target_windows)
        return weights
