"""Where the paper's weights end when losses and discrepancies are given: the loop of the weights alone.

The sizes are those of the authors' public figure (54,821 source and 2,267 target windows; `--share` takes a
part of them), the options the paper's, d ~ N(2.5, 0.55): the mean is what the slope of the figure implies.
The paper's appendix F reports 1.93 ± 0.07 for the target and 0.46 ± 0.30 for the source, of one source domain
after 600 refreshes. "fixed" losses are the same for every window at every refresh; "draws: 1" is a new
exponential number of that mean for each, about as noisy as a denoising loss of one noise draw.

Run: python examples/weight_evolution.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from beacon import Reweighter
from beacon.weighting import Steps

SOURCE, TARGET = 54_821, 2_267  # windows
NEAR_ZERO = 0.01
REFRESHES = 600


@dataclass(frozen=True)
class Loop:
    """One way to run the loop.

    Args:
        sources: number of source domains.
        refreshes: of the weights; steps travel as far, however many there are.
        loss: mean loss of all windows.
        draws: noise draws that a loss is the mean of, anew at every refresh; 0: losses are fixed.
        precondition: steps of several sources are divided by w².
    """

    sources: int = 1
    refreshes: int = REFRESHES
    loss: float = 0.27
    draws: int = 0
    precondition: bool = False

    def end(self, share: float = 1.0, seed: int = 0) -> End:
        """Run it with a share of the windows."""
        m, n = round(share * SOURCE), round(share * TARGET)
        rng = np.random.default_rng(seed)
        discrepancies = np.maximum(np.r_[rng.normal(2.5, 0.55, m), np.zeros(n)], 0.0)
        domains = np.r_[np.arange(m) % self.sources, np.full(n, self.sources)]
        rw = Reweighter(
            domains=domains,
            target=self.sources,
            planned_refreshes=self.refreshes,
            solver=Steps(precondition=self.precondition),
        )
        losses = np.full(m + n, self.loss)
        for _ in range(self.refreshes):
            if self.draws:  # the mean of so many exponential numbers
                losses = rng.gamma(self.draws, self.loss / self.draws, m + n)
            rw.refresh(losses, discrepancies=discrepancies)
        source, target = rw.weights[:m], rw.weights[m:]
        return End(
            float(target.mean()),
            float(target.std()),
            float(source.mean()),
            float(source.std()),
            float((source < NEAR_ZERO).mean()),
        )


@dataclass(frozen=True)
class End:
    """Weights after the last refresh."""

    target_mean: float
    target_std: float
    source_mean: float
    source_std: float
    near_zero: float  # share of the source that weighs less than NEAR_ZERO


LOOPS = (
    Loop(),
    Loop(refreshes=10),
    Loop(draws=1),
    Loop(refreshes=10, draws=1),
    Loop(refreshes=10, draws=16),
    *(Loop(sources=2, loss=loss) for loss in (0.27, 0.10, 0.05, 0.02)),
    Loop(sources=2, precondition=True),
)


def table(share: float) -> str:
    """All loops, as Markdown."""
    lines = [
        "| sources | refreshes | losses | steps | target | source | source below 0.01 |",
        "|---|---|---|---|---|---|---|",
    ]
    for loop in LOOPS:
        end = loop.end(share)
        losses = f"{loop.loss:.2f}, {f'draws: {loop.draws}' if loop.draws else 'fixed'}"
        steps = "÷ w²" if loop.precondition else "as written"
        lines.append(
            f"| {loop.sources} | {loop.refreshes} | {losses} | {steps} "
            f"| {end.target_mean:.2f} ± {end.target_std:.2f} | {end.source_mean:.2f} ± {end.source_std:.2f} "
            f"| {end.near_zero:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.1, help="of the paper's number of windows")
    print(table(parser.parse_args().share))
