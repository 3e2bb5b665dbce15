"""A group-DRO mixture of the domains, in the manner of Re-Mix (Hejna et al. 2024).

1. A reference policy is trained on all data at the natural mix.
2. The policy is trained on a mixture α of the domains that moves towards those with the largest excess loss
   over the reference: what could be learned there and has not been yet.

        α_k ← α_k exp(η e_k),  e_k = mean over domain k of max(0, ℓ(θ) − ℓ(θ_ref));  α ← (1 − c) α/Σα + c/K

   (DoReMi, Xie et al. 2023, which Re-Mix brings to robot data). The target is one of the K domains.
3. The mean of α over the run is the mixture to train on from scratch: ``cotrain --match-run RUN``.

Kept simple: α moves once an epoch instead of every step, on a fixed number of windows of every domain, under
the same noise for both policies; windows are drawn by α instead of being weighted by it; actions stay
continuous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import EpochReport, Indices, Method, MethodContext, ReferencePolicy
from beacon.methods.sampling import mixture

REFERENCE = "natural-mix"  # its name in the run folder
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class RemixOptions:
    """Options of the group-DRO mixture."""

    # Step size η of the domain weights, per epoch.
    eta: float = 1.0
    # Share c of the uniform mixture, so that no domain vanishes; DoReMi: 0.001.
    smoothing: float = 1e-3
    # Windows of each domain that are looked at every epoch.
    probe: int = 128
    # Gradient steps of the reference policy, as a share of the run's own.
    reference_share: float = 0.25
    # Start from equally likely domains, instead of from domains as likely as they are large.
    uniform_start: bool = False

    def __post_init__(self) -> None:
        if not self.eta >= 0:
            raise UserError(f"--eta {self.eta}: must be at least 0")
        if not 0 <= self.smoothing <= 1:
            raise UserError(f"--smoothing {self.smoothing}: must be from 0 to 1")
        if self.probe < 1:
            raise UserError(f"--probe {self.probe}: must be at least 1")
        if not 0 < self.reference_share <= 1:
            raise UserError(f"--reference-share {self.reference_share}: must be above 0 and at most 1")


def exponentiated_step(alpha: Vector, excess: Vector, eta: float, smoothing: float) -> Vector:
    """One step of exponentiated gradient ascent on the simplex, mixed with the uniform distribution.

    >>> exponentiated_step(np.array([0.5, 0.5]), np.array([0.0, np.log(3)]), eta=1.0, smoothing=0.0)
    array([0.25, 0.75])
    """
    with np.errstate(divide="ignore"):
        logits = np.log(alpha) + eta * excess
    raised = np.exp(logits - logits.max())
    return np.asarray((1 - smoothing) * raised / raised.sum() + smoothing / len(alpha))


class Remix(Method):
    """Draw the domains by a mixture that attends to what has not been learned yet."""

    revision = 2  # the reference has the run's bound on gradients
    Options = RemixOptions

    def __init__(self, options: RemixOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self._members = [np.flatnonzero(context.windows.domain == d) for d in range(len(context.domains))]
        sizes = np.array([len(members) for members in self._members], np.float64)
        self.alpha: Vector = (
            np.full(len(sizes), 1 / len(sizes)) if options.uniform_start else sizes / sizes.sum()
        )
        self.mean: Vector = self.alpha.copy()  # over the updates so far
        self._updates = 0
        self._reference: ReferencePolicy | None = None

    def batches(self, epoch: int) -> Indices:
        """Domains by α, windows of a domain uniformly."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        return mixture(self._members, self.alpha, shape[0] * shape[1], context.seed, epoch).reshape(shape)

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Move α; at the very start there is nothing to compare, and it only is told."""
        context, options = self.context, self.options
        excess = np.zeros(len(self.alpha))
        if epoch > 0:
            excess = self._excess(epoch)
            self.alpha = exponentiated_step(self.alpha, excess, options.eta, options.smoothing)
            self._updates += 1
            self.mean = self.mean + (self.alpha - self.mean) / self._updates
        scalars: dict[str, float] = {}
        for number, name in enumerate(context.domains.names):
            scalars[f"mixture/{name}"] = float(self.alpha[number])
            scalars[f"mean_mixture/{name}"] = float(self.mean[number])
            scalars[f"excess/{name}"] = float(excess[number])
        sizes = np.array([len(members) for members in self._members])
        weights = (self.mean / sizes * len(context.windows))[context.windows.domain]
        return EpochReport(scalars=scalars, weights=weights)

    def _excess(self, epoch: int) -> Vector:
        """Mean excess loss of every domain, on windows that change with the epoch."""
        context, options = self.context, self.options
        if self._reference is None:
            steps = max(1, round(options.reference_share * context.epochs * context.steps_per_epoch))
            self._reference = context.fit_reference(REFERENCE, np.arange(len(context.windows)), steps)
        rng = np.random.default_rng([context.seed, epoch])
        excess = np.zeros(len(self._members))
        for number, members in enumerate(self._members):
            chosen = np.sort(rng.choice(members, min(options.probe, len(members)), replace=False))
            now, then = (measure(chosen, 1, epoch) for measure in (context.measure, self._reference.measure))
            excess[number] = float((now.losses - then.losses).clamp_min(0).double().mean())
        return excess

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The mixture, its mean, and how many updates that is of."""
        return {"alpha": self.alpha.copy(), "mean": self.mean.copy(), "updates": np.array(self._updates)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if set(state) != {"alpha", "mean", "updates"} or np.shape(state["alpha"]) != self.alpha.shape:
            raise UserError("the checkpoint belongs to another method or to other domains")
        self.alpha, self.mean = np.array(state["alpha"]), np.array(state["mean"])
        self._updates = int(state["updates"])
