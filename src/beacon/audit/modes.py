"""Does a set fall into two parts that contradict each other, such as two cameras or two goals?

A model of all of them fits neither part well, and whatever is usual beside it is too wide to tell them apart.
A model of one part fits that part alone: its misfits have two heaps with nothing between. So the set is cut
where two normal distributions describe the misfits best, the better part is fitted again, and so on
(clusterwise regression: Späth, 1979). A cut counts where the two describe them far better than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    sizes = np.arange(fewest, count - smallest + 1)
    centred = ordered - ordered.mean()
    sums, squares = np.cumsum(centred), np.cumsum(centred**2)
    below = _heap(sizes, sums[sizes - 1], squares[sizes - 1], count, least_spread)
    above = _heap(
        count - sizes, sums[-1] - sums[sizes - 1], squares[-1] - squares[sizes - 1], count, least_spread
    )
    one = _heap(np.array([count]), sums[-1:], squares[-1:], count, least_spread)
    gains = below.log_likelihood + above.log_likelihood - one.log_likelihood
    best = int(gains.argmax())
    spread = np.sqrt(0.5 * (below.spread[best] ** 2 + above.spread[best] ** 2))
    is_apart = gains[best] > GAIN * count and above.mean[best] - below.mean[best] > APART * spread
    return (float(gains[best]) if is_apart else 0.0), float(ordered[sizes[best] - 1])


class _Heap(NamedTuple):
    """Normal distributions of parts of a sample, each with its share of all; without constants."""

    mean: Vector
    spread: Vector
    log_likelihood: Vector


def _heap(sizes: NDArray[np.int64], sums: Vector, squares: Vector, count: int, least_spread: float) -> _Heap:
    """Of parts with these sizes, sums and sums of squares, of a sample of so many."""
    mean = sums / sizes
    deviation = np.sqrt(np.maximum(squares / sizes - mean**2, 0.0))
    spread = np.maximum(deviation, least_spread)
    likelihood = sizes * (np.log(sizes / count / spread) - 0.5 * (deviation / spread) ** 2)
    return _Heap(mean, spread, likelihood)
