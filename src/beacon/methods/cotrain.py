"""Co-training at a fixed ratio: what people do without BEACON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices, Method, MethodContext
from beacon.methods.sampling import mixed, mixture, shuffled

USUAL = 0.9


@dataclass(frozen=True)
class CoTrainingOptions:
    """Options of co-training."""

    ratio: float | Literal["natural"] = USUAL
    """Share of source samples in a mini-batch, or "natural": every window equally often. The paper does not
    state its ratio; 0.9 is that of the UOT baseline it builds on. BEACON's own ends at about 0.85."""
    match_run: Path | None = None
    """Draw each domain as often as the last weights of this run give it mass, for example BEACON's: the
    control that separates the ratio from the weights of single windows."""

    def __post_init__(self) -> None:
        if isinstance(self.ratio, str):
            if self.ratio != "natural":
                raise UserError(f"--ratio {self.ratio}: must be 'natural' or a number from 0 to 1")
        elif not 0 <= self.ratio <= 1:
            raise UserError(f"--ratio {self.ratio}: must be 'natural' or a number from 0 to 1")
        if self.match_run is not None and self.ratio != USUAL:
            raise UserError("--ratio and --match-run: both decide the share of the source; say one of them")


class CoTraining(Method):
    """Draw every mini-batch from source and target at a fixed ratio, all samples weighing the same."""

    Options = CoTrainingOptions

    def __init__(self, options: CoTrainingOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self._shares: NDArray[np.float64] | None = None  # of every domain, where another run decides
        if options.match_run is not None:
            self._shares = final_shares(options.match_run, context.domains.names)

    def batches(self, epoch: int) -> Indices:
        """Mixed windows, or with the natural ratio all windows shuffled."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        if self._shares is not None:
            members = [np.flatnonzero(context.windows.domain == d) for d in range(len(context.domains))]
            return mixture(members, self._shares, count, context.seed, epoch).reshape(shape)
        if self.options.ratio == "natural":
            everything = np.arange(len(context.windows))
            return shuffled(everything, epoch * count, count, context.seed).reshape(shape)
        source, target = context.source_windows, context.target_windows
        return mixed(source, target, self.options.ratio, count, context.seed, epoch).reshape(shape)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The shares that were read from the other run, which may change or go away."""
        return {} if self._shares is None else {"shares": self._shares.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if set(state) != set(self.state_dict()):
            raise UserError("the checkpoint belongs to another method")
        if "shares" in state:
            self._shares = np.array(state["shares"], np.float64)


def final_shares(run: Path, domains: tuple[str, ...]) -> NDArray[np.float64]:
    """The share of the mass that each domain has in the newest weights of a run, (domains,)."""
    from beacon.runs import Run

    try:
        return Run(run).mass_shares(domains)
    except UserError as error:
        raise UserError(f"--match-run {error}") from None
