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

CONCENTRATIONS = 6  # times that the best part is chosen anew; the set is cut beginning from each
GROWTHS = 4  # times that it grows afterwards
CUTS = 5  # times that a set is cut anew, at most
SMALLEST_PART = 0.15  # share of a set; fewer are found one by one
FEW = 0.5  # times as many as the others have: from here on the second part may be the right one
APART = 4.0  # standard deviations between the two heaps; a normal heap that is cut has less
GAIN = 0.2  # of the log likelihood for each demonstration


def better_part(
    measure: Callable[[Members], Matrix], demos: int, options: CalibrationOptions, guesses: int = 10
) -> Members | None:
    """The part of a set whose model fits it, where another part contradicts it; None: the set is of a piece.

    Args:
        measure: statistics by a model of the members; the first one counts.
        demos: number of demonstrations.
        options: how many are sound at least.
        guesses: from how many parts the search begins; where members are easy to tell, the first ones do.
    """
    fewest, smallest = round(options.sound_share * demos), max(3, round(SMALLEST_PART * demos))
    if fewest + smallest > demos:
        return None
    known: dict[bytes, tuple[float, Members]] = {}

    def cut(members: Members) -> tuple[float, Members]:
        if (key := members.tobytes()) not in known:
            values = measure(members)[:, 0]
            gain, largest = _cut(values, fewest, smallest, options.least_spread)
            known[key] = gain, values <= largest
        return known[key]

    grown = np.linspace(fewest, demos - smallest, GROWTHS).round().astype(np.int64).tolist()
    members = np.ones(demos, np.bool_)
    for size in ([fewest] * CONCENTRATIONS + grown)[:guesses]:
        members = best_members(measure(members)[:, 0], size)
        gain, part = _settled(cut, members)
        if gain > 0:
            return part
    return None


def _settled(cut: Callable[[Members], tuple[float, Members]], members: Members) -> tuple[float, Members]:
    """The lower heap that is cut off again by its own model, or the last one; and what it gains.

    Args:
        cut: what the two heaps gain, by a model of the members, and the lower one.
        members: where to begin.
    """
    gain = 0.0
    for _ in range(CUTS):
        before = members
        gain, members = cut(before)
        if (members == before).all():
            break
    return gain, members


def _cut(values: Vector, fewest: int, smallest: int, least_spread: float) -> tuple[float, float]:
    """What two heaps gain over one, 0 where they are not two, and the largest value of the lower one.

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
    return (gains[size] if is_apart else 0.0), float(lower[-1])


def _log_likelihood(values: Vector, count: int, least_spread: float) -> float:
    """Of a heap with its share of all, by a normal distribution; without constants."""
    spread = _spread(values, least_spread)
    share = len(values) / count
    return float(len(values) * (np.log(share / spread) - 0.5 * (values.std() / spread) ** 2))


def _spread(values: Vector, least_spread: float) -> float:
    return max(float(values.std()), least_spread)
