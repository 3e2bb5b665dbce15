"""Co-training at a fixed ratio: what people do without BEACON."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import EpochReport, Indices, Method, MethodContext
from beacon.methods.sampling import mixed, mixture, shuffled

LOG = logging.getLogger(__name__)
USUAL = 0.9
Rule = Literal["auto", "auto-low", "auto-high"]
RULES: tuple[Rule, ...] = ("auto", "auto-low", "auto-high")


@dataclass(frozen=True)
class CoTrainingOptions:
    """Options of co-training."""

    ratio: float | Literal["natural"] | Rule = USUAL
    """Share of source samples in a mini-batch; "natural": every window equally often; "auto": by the numbers
    of demonstrations, the middle of the range of arXiv 2604.13645; "auto-low" and "auto-high": the least and
    the most target of that range. The paper does not state its ratio; 0.9 is that of the UOT baseline it
    builds on. BEACON's own ends at about 0.85."""
    match_run: Path | None = None
    """Draw each domain as often as the last weights of this run give it mass, for example BEACON's: the
    control that separates the ratio from the weights of single windows."""

    def __post_init__(self) -> None:
        words = ("natural", *RULES)
        if self.ratio not in words if isinstance(self.ratio, str) else not 0 <= self.ratio <= 1:
            raise UserError(f"--ratio {self.ratio}: must be a number from 0 to 1, or {', '.join(words)}")
        if self.match_run is not None and self.ratio != USUAL:
            raise UserError("--ratio and --match-run: both decide the share of the source; say one of them")


def target_share_range(target_demos: int, source_demos: int) -> tuple[float, float]:
    """The range in which to look for the target's share, N/(N + M) to √(N/M), neither above one half.

    The rule of arXiv 2604.13645, which states it for M/N > 5. N and M count demonstrations, as its own
    numbers do: windows of one demonstration resemble each other and are no further evidence.

    Args:
        target_demos: N.
        source_demos: M.

    >>> target_share_range(10, 250)
    (0.038461538461538464, 0.2)
    """
    natural = target_demos / (target_demos + source_demos)
    return min(natural, 0.5), min(math.sqrt(target_demos / source_demos), 0.5)


class CoTraining(Method):
    """Draw every mini-batch from source and target at a fixed ratio, all samples weighing the same."""

    Options = CoTrainingOptions

    def __init__(self, options: CoTrainingOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self._shares: NDArray[np.float64] | None = None  # of every domain, where another run decides
        self._ratio = self._share_of_source()
        if options.match_run is not None:
            self._shares = final_shares(options.match_run, context.domains.names)

    def _share_of_source(self) -> float | None:
        """As --ratio says; None: every window equally often."""
        ratio = self.options.ratio
        if ratio == "natural":
            return None
        if ratio not in RULES:
            return float(ratio)
        low, high = target_share_range(*self._demo_counts())
        return 1 - {"auto-low": low, "auto": math.sqrt(low * high), "auto-high": high}[ratio]

    def _demo_counts(self) -> tuple[int, int]:
        """Target and source demonstrations."""
        on_target = self.context.windows.episode_domain == self.context.target
        return int(on_target.sum()), int((~on_target).sum())

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Say at the start what the rule has chosen, where one has."""
        if epoch > 0 or self._ratio is None or self.options.ratio not in RULES:
            return None
        target, source = self._demo_counts()
        low, high = target_share_range(target, source)
        chosen = 1 - self._ratio
        stated = "" if source > 5 * target else "; the rule is stated for more than 5 source per target"
        LOG.info(
            f"--ratio {self.options.ratio}: {source} source and {target} target demonstrations, "
            f"target share {chosen:.3f} of {low:.3f} to {high:.3f}{stated}"
        )
        return EpochReport(
            scalars={
                "target_share": chosen,
                "target_share/low": low,
                "target_share/high": high,
                "source_share": self._ratio,
            }
        )

    def batches(self, epoch: int) -> Indices:
        """Mixed windows, or with the natural ratio all windows shuffled."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        if self._shares is not None:
            members = [np.flatnonzero(context.windows.domain == d) for d in range(len(context.domains))]
            return mixture(members, self._shares, count, context.seed, epoch).reshape(shape)
        if self._ratio is None:
            everything = np.arange(len(context.windows))
            return shuffled(everything, epoch * count, count, context.seed).reshape(shape)
        source, target = context.source_windows, context.target_windows
        return mixed(source, target, self._ratio, count, context.seed, epoch).reshape(shape)

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
