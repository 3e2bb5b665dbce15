"""Where the sum of a projection bends: a piecewise linear function of the shift, and its pieces.

See `beacon.weighting.solvers.projection`, which it is a part of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from beacon.weighting.chunks import map_chunks
from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.validation import Vector

SORTABLE = 4096  # coordinates that are sorted; of more than these, as many are sampled
MARGIN = 5.0  # half-width of the suggested bracket in standard errors of the sample


def clip(x: Vector, lower: Vector | float, upper: Vector | float, out: Vector | None = None) -> Vector:
    """``np.clip`` for bounds in order and no NaN, a good deal faster: both halves are vector instructions."""
    return np.asarray(np.minimum(np.maximum(x, lower, out=out), upper, out=out))


@dataclass(frozen=True)
class Undecided:
    """The sum for ν in [left, right], as ``base − slope·(ν − left) + Σ clip(x − ν, lower, upper)``.

    ``x`` holds the coordinates with a breakpoint inside the bracket; the others are in base and slope.
    """

    x: Vector
    lower: Vector
    upper: Vector
    base: float = 0.0
    slope: float = 0.0  # how many decided coordinates move with ν
    left: float = -math.inf
    right: float = math.inf
    shard: Shard = WHOLE
    count: int | None = None  # how many coordinates are undecided in all processes, where that is known

    @cached_property
    def size(self) -> int:
        """How many coordinates are undecided, in all processes."""
        return int(self.shard.totals(self.x.size)[0]) if self.count is None else self.count

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The sums at both ends of the bracket."""
        undecided = self.shard.totals(self._undecided(self.left), self._undecided(self.right))
        return self._decided(self.left) + undecided[0], self._decided(self.right) + undecided[1]

    def total(self, shift: float) -> float:
        """The sum at ``shift``."""
        return self._decided(shift) + self.shard.totals(self._undecided(shift))[0]

    def _undecided(self, shift: float) -> float:
        return float(clip(self.x - shift, self.lower, self.upper).sum())

    def _decided(self, shift: float) -> float:
        return self.base - self.slope * (shift - self.left) if self.slope else self.base

    def narrow(self, left: float, right: float) -> Undecided:
        """The same function in a smaller bracket, in one pass over what was undecided."""
        parts = map_chunks(lambda part: self._decide(part, left, right), self.x.size)
        keep = np.concatenate([np.empty(0, np.int64), *(kept for kept, _, _ in parts)])
        decided, free, count = self.shard.totals(
            math.fsum(decided for _, decided, _ in parts), sum(free for _, _, free in parts), keep.size
        )
        base, slope = self._decided(left) + decided, self.slope + free
        x, lower, upper = self.x[keep], self.lower[keep], self.upper[keep]
        return Undecided(x, lower, upper, base, slope, left, right, self.shard, int(count))

    def _decide(self, part: slice, left: float, right: float) -> tuple[NDArray[np.int64], float, int]:
        """What stays undecided; the sum of the others at ``left``; how many of them move with ν."""
        x, lower, upper = self.x[part], self.lower[part], self.upper[part]
        top, bottom = x - upper, x - lower  # at the upper bound up to top, at the lower one from bottom on
        held, released = top > left, bottom < right
        inside = held & (top < right)
        inside |= released & (bottom > left)
        keep = np.flatnonzero(inside)
        held |= released
        value = clip(np.subtract(x, left, out=top), lower, upper, out=top)
        decided = float(value.sum()) - float(value[keep].sum())
        return keep + part.start, decided, x.size - int(np.count_nonzero(held))

    def suggest_bracket(self, budget: float) -> tuple[float, float]:
        """A bracket that very likely holds ν, from a sample of the coordinates (the same one every time)."""
        size, own = self.size, self.x.size
        count = SORTABLE if size < 256 * SORTABLE else 8 * SORTABLE  # sorting must stay cheap beside a pass
        # Of every process as many as it has of all; one that has nothing draws nothing.
        chosen = np.random.default_rng(0).integers(max(own, 1), size=-(-count * own // size))
        x, lower, upper = gather_vectors(self.shard, self.x[chosen], self.lower[chosen], self.upper[chosen])
        count = x.size
        share = count / size
        sample = Undecided(x, lower, upper, self.base * share, self.slope * share, self.left, self.right)
        shift = min(max(sample.solve(budget * share), self.left), self.right)
        y = clip(x - shift, lower, upper)
        moving = self.slope + size * max(float(np.mean((y > lower) & (y < upper))), 1.0 / count)
        half = MARGIN * size * float(y.std()) / math.sqrt(count) / moving
        half = max(half, 1e-9 * max(1.0, abs(shift)))
        return max(shift - half, self.left), min(shift + half, self.right)

    def solve(self, budget: float) -> float:
        """Sort the breakpoints, sum the linear pieces from the right, solve the one that meets the budget.

        A sample's budget may be out of reach; the nearest end is returned then.
        """
        if not self.shard.is_whole:
            x, lower, upper = gather_vectors(self.shard, self.x, self.lower, self.upper)
            return replace(self, x=x, lower=lower, upper=upper, shard=WHOLE).solve(budget)
        tops, bottoms = self.x - self.upper, self.x - self.lower
        tops = tops[np.isfinite(tops)]
        points = np.concatenate([tops, bottoms])
        if points.size == 0:
            return self._solve_linear(self.left, self.base, self.slope, budget)
        order = np.argsort(points, kind="stable")
        points = points[order]
        # slopes[j]: how many coordinates move between points[j - 1] and points[j]; the last is beyond all.
        change = np.where(order < tops.size, -1.0, 1.0)  # moving left over a bottom frees, over a top holds
        slopes = np.append(self.slope + np.cumsum(change[::-1])[::-1], self.slope)
        last = self.total(float(points[-1]))
        totals = last + np.append(np.cumsum((np.diff(points) * slopes[1:-1])[::-1])[::-1], 0.0)
        # The first breakpoint, from the left, at which the sum is no longer above the budget.
        piece = int(np.searchsorted(-totals, -budget))
        if piece == points.size:
            return self._solve_linear(float(points[-1]), float(totals[-1]), float(slopes[-1]), budget)
        shift = self._solve_linear(float(points[piece]), float(totals[piece]), float(slopes[piece]), budget)
        # The running sums are rounded many times over; one step with the sum itself makes up for it.
        return self._solve_linear(shift, self.total(shift), float(slopes[piece]), budget)

    @staticmethod
    def _solve_linear(shift: float, total: float, slope: float, budget: float) -> float:
        return shift + (total - budget) / slope if slope > 0 else shift


def gather_vectors(shard: Shard, *vectors: Vector) -> list[Vector]:
    """Vectors of one length, of all processes."""
    if shard.is_whole:
        return list(vectors)
    return [np.ascontiguousarray(column) for column in shard.gather_array(np.stack(vectors, axis=1)).T]
