"""`KeptDemonstrations`: demonstrations that somebody decided to keep have a least weight, with any method.

Dropped demonstrations need nothing here: they are not among the training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import EpochReport, Indices, Method, State, join_states, split_states
from beacon.methods.sampling import proportional

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.policy import Encoding

Vector = NDArray[np.float64]
STREAM = 25  # of randomness, apart from those of the methods


def lift(weights: Vector, kept: NDArray[np.bool_], domain: NDArray[np.int16], floor: float) -> Vector:
    """Weights in which every kept window has at least ``floor`` times the mean weight of its domain.

    Args:
        weights: of all windows, (N,).
        kept: which windows are of kept demonstrations, (N,).
        domain: of every window, (N,).
        floor: least weight of a kept window.

    >>> lift(np.array([0.0, 4.0, 2.0]), np.array([True, False, False]), np.array([0, 0, 1], np.int16), 1.0)
    array([2., 4., 2.])
    """
    means = np.bincount(domain, weights) / np.maximum(np.bincount(domain), 1)
    return np.where(kept, np.maximum(weights, floor * means[domain]), weights)


class KeptDemonstrations(Method):
    """A method, with a least weight for kept demonstrations.

    It goes by the weights that the method reports between epochs. Where losses are weighted, the weights are
    lifted. Where windows are drawn by weight, some draws are replaced by kept windows, so that windows are
    drawn in proportion to the lifted weights. A method that reports none treats all demonstrations of a
    domain alike, and kept ones with them.

    Args:
        method: what is trained by.
        kept: which windows are of kept demonstrations, (N,).
        floor: least weight of a kept window, in units of the mean weight of its domain.
    """

    needs_source = needs_target = False  # the method itself has checked

    def __init__(self, method: Method, kept: NDArray[np.bool_], floor: float) -> None:
        super().__init__(method.options, method.context)
        self.method, self._kept, self._floor = method, kept, floor
        self._weights: Vector | None = None  # as the method reported them last
        self._lifted: Vector | None = None
        self._least: Tensor | None = None  # lifted weights of kept windows, 0 elsewhere; where the policy is

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """What the method reports, with lifted weights."""
        report = self.method.between_epochs(epoch)
        if report is None or report.weights is None:
            return report
        self._take_up(np.asarray(report.weights, np.float64))
        assert self._lifted is not None and self._weights is not None
        count = float(np.count_nonzero(self._lifted > self._weights))
        scalars = {**report.scalars, "decisions/lifted_windows": count}
        return replace(report, weights=self._lifted, scalars=scalars)

    def batches(self, epoch: int) -> Indices:
        """The method's, with kept windows in place of some where windows are drawn by weight."""
        drawn = self.method.batches(epoch)
        if self._weights is None or self._lifted is None or self._weighs_losses():
            return drawn
        missing = self._lifted - self._weights
        if not missing.any():
            return drawn
        seed = int(np.random.SeedSequence([self.context.seed, STREAM]).generate_state(1)[0])
        rng = np.random.default_rng([seed, epoch, 1])
        replaced = rng.random(drawn.shape) < missing.sum() / self._lifted.sum()
        return np.where(replaced, proportional(missing, drawn.size, seed, epoch).reshape(drawn.shape), drawn)

    def weights(self, index: Tensor) -> Tensor | None:
        """The method's, at least the lifted ones for kept windows."""
        import torch

        weights = self.method.weights(index)
        if weights is None or self._lifted is None:
            return weights
        if self._least is None or self._least.device != weights.device:
            least = torch.from_numpy(np.where(self._kept, self._lifted, 0.0))
            self._least = least.to(weights.device, weights.dtype)
        return torch.maximum(weights, self._least[index.to(weights.device)])

    def noise_weights(self, index: Tensor, timesteps: Tensor) -> Tensor | None:
        """The method's."""
        return self.method.noise_weights(index, timesteps)

    @property
    def wants_noise_losses(self) -> bool:
        """The method's."""
        return self.method.wants_noise_losses

    def observe_noise(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """Passed on."""
        self.method.observe_noise(index, timesteps, losses)

    @property
    def mean_weight(self) -> float:
        """The method's."""
        return self.method.mean_weight

    @property
    def weight_decay(self) -> float:
        """The method's."""
        return self.method.weight_decay

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """The method's."""
        return self.method.extra_loss(batch, encoding, losses)

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor) -> None:
        """Passed on."""
        self.method.observe(index, encoding, losses)

    def state_dict(self) -> State:
        """The method's state, and the weights that it reported last."""
        own: State = {} if self._weights is None else {"kept/weights": self._weights.copy()}
        return join_states({"method": self.method}) | own

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        rest = dict(state)
        weights = rest.pop("kept/weights", None)
        split_states({"method": self.method}, rest)
        if weights is None:
            return
        if np.shape(weights) != self._kept.shape:
            raise UserError("the checkpoint belongs to other data: it has another number of windows")
        self._take_up(np.array(weights, np.float64))

    def _take_up(self, weights: Vector) -> None:
        self._weights, self._least = weights, None
        self._lifted = lift(weights, self._kept, self.context.windows.domain, self._floor)

    def _weighs_losses(self) -> bool:
        import torch

        return self.method.weights(torch.zeros(1, dtype=torch.int64)) is not None
