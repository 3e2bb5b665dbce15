"""Does a set fall into two parts that contradict each other, such as two cameras or two goals?

A model of all of them fits neither part well, and whatever is usual beside it is too wide to tell them apart.
A model of one part fits that part alone: its misfits have two heaps with nothing between. So the set is cut
where two normal distributions describe the misfits best, the better part is fitted again, and so on
(clusterwise regression: Späth, 1979). A cut counts where the two describe them far better than one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beacon.audit.calibration import CalibrationOptions, Members, best_members
from beacon.audit.evidence import Matrix, Vector

ROUNDS = 8  # in which a set is cut and fitted again
SMALLEST_PART = 0.15  # share of a set; fewer are found one by one
APART = 4.0  # standard deviations between the two heaps; a normal heap that is cut has less
GAIN = 0.2  # of the log likelihood for each demonstration


def better_part(
    measure: Callable[[Members], Matrix], demos: int, options: CalibrationOptions
) -> Members | None:
    """The part of a set whose model fits it, where another part contradicts it; None: the set is of a piece.

    Args:
        measure: statistics by a model of the members; the first one counts.
        demos: number of demonstrations.
        options: how many are sound at least.
    """
    fewest, smallest = round(options.sound_share * demos), max(3, round(SMALLEST_PART * demos))
    members = np.ones(demos, np.bool_)
    for _ in range(options.concentrations):
        members = best_members(measure(members)[:, 0], fewest)
    for _ in range(ROUNDS):
        values = measure(members)[:, 0]
        largest, is_apart = _cut(values, fewest, smallest, options.least_spread)
        before, members = members, values <= largest
        if (members == before).all():
            return members if is_apart else None
    return None


def _cut(values: Vector, fewest: int, smallest: int, least_spread: float) -> tuple[float, bool]:
    """The largest value of the lower heap, and whether there are two.

    Args:
        values: (demos,).
        fewest: of the lower heap.
        smallest: of the upper one.
        least_spread: smallest standard deviation that is believed.
    """
    ordered, count = np.sort(values), len(values)
    one = _log_likelihood(ordered, count, least_spread)
    gains = {
        size: _log_likelihood(ordered[:size], count, least_spread)
        + _log_likelihood(ordered[size:], count, least_spread)
        - one
        for size in range(fewest, count - smallest + 1)
    }
    size = max(gains, key=lambda size: gains[size])
    lower, upper = ordered[:size], ordered[size:]
    spread = np.sqrt(0.5 * (_spread(lower, least_spread) ** 2 + _spread(upper, least_spread) ** 2))
    is_apart = gains[size] > GAIN * count and upper.mean() - lower.mean() > APART * spread
    return float(lower[-1]), bool(is_apart)


def _log_likelihood(values: Vector, count: int, least_spread: float) -> float:
    """Of a heap with its share of all, by a normal distribution; without constants."""
    spread = _spread(values, least_spread)
    return len(values) * (np.log(len(values) / count) - np.log(spread) - 0.5 * (values.std() / spread) ** 2)


def _spread(values: Vector, least_spread: float) -> float:
    return max(float(values.std()), least_spread)
