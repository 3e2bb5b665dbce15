"""Nulls from the data themselves: which part of a set is sound, and how unusual everything else is beside it.

A set may be sound as a whole, or hold corrupted demonstrations up to a share. The best part of it is taken
to be sound; whatever measures misfit is fitted on it; every demonstration that is then not unusual joins it,
and so on (concentration and reweighting, as in least trimmed squares: Rousseeuw and Van Driessen, 2006). In a
clean set nearly all join, so the null is the set's own, with its tails. In a corrupted one the part stops
growing where the corrupted ones begin. Members are always measured by models that have not seen them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.audit.evidence import Matrix, Vector, predictive_p_values, untruncated

Members = NDArray[np.bool_]
# Statistics of every demonstration, (demos, statistics), by a model of the members; larger is worse.
Measure = Callable[[Members], Matrix]


@dataclass(frozen=True)
class CalibrationOptions:
    """How the sound part of a set is found."""

    # Share of a set that is taken to be sound, at least.
    sound_share: float = 0.4
    # Rounds in which the best part is fitted and chosen again, before it may grow.
    concentrations: int = 2
    # Rounds in which it grows.
    growths: int = 4
    # p-value above which a demonstration joins the sound part.
    joins: float = 0.001
    # Standard deviation of a statistic of sound demonstrations, at least.
    least_spread: float = 0.03


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Statistics and p-values of all demonstrations of a set."""

    statistics: Matrix  # (demos, statistics)
    p_values: Matrix  # (demos, statistics)
    members: Members  # (demos,) the sound part
    null: Null

    @property
    def combined(self) -> Vector:
        """The smallest p-value of every demonstration, times the number of statistics, (demos,)."""
        return np.asarray(np.minimum(1.0, self.p_values.min(axis=1) * self.p_values.shape[1]))

    @property
    def scores(self) -> Vector:
        """Standard deviations of a normal distribution that are as unusual, (demos,)."""
        from scipy.stats import norm

        return np.asarray(norm.isf(np.clip(self.p_values.min(axis=1), 1e-300, 1 - 1e-12)))


def calibrate(
    measure: Measure,
    demos: int,
    options: CalibrationOptions,
    *,
    start: Members | None = None,
    is_whole: bool = False,
    may_join: Members | None = None,
    trusted: Matrix | None = None,
    least: Vector | None = None,
    two_sided: tuple[int, ...] = (),
    grows_skewed: bool = False,
) -> Calibrated:
    """Find the sound part of a set and p-values of all beside it.

    Args:
        measure: statistics by a model of the members; the first one ranks demonstrations.
        demos: number of demonstrations.
        options: how the part is found.
        start: a first guess of the sound part, which is not concentrated; None: all.
        is_whole: whether the first guess is a part of its own, not the best of a larger one.
        may_join: (demos,) which ones may become part of it; None: all.
        trusted: (target's demonstrations, statistics), each by a model of the others. Sound ones of the set
            are taken to vary as much at least; columns of NaN do not count.
        least: (statistics,) values up to which nothing is unusual, whatever the others have.
        two_sided: statistics of which small values are unusual as well.
        grows_skewed: whether the part may be skewed while it grows. It is in the end, in any case; but
            corrupted ones that join make it skewed, so that more of them join.
    """
    fewest = max(2, round(options.sound_share * demos))
    if start is None:
        members = np.ones(demos, np.bool_)
        for _ in range(options.concentrations):
            members = best_members(measure(members)[:, 0], fewest)
    else:
        members = start

    def judge(share: float) -> tuple[Matrix, Null]:
        statistics = measure(members)
        return statistics, Null(statistics[members], trusted, least, two_sided, options.least_spread, share)

    statistics, null = judge(1.0 if is_whole else fewest / demos)
    p_values = null.p_values(statistics, is_skewed=grows_skewed)
    for _ in range(options.growths):
        joined = p_values.min(axis=1) * p_values.shape[1] > options.joins
        if may_join is not None:
            joined &= may_join
        if joined.sum() < fewest or (joined == members).all():
            break
        members = joined
        statistics, null = judge(1.0)
        p_values = null.p_values(statistics, is_skewed=grows_skewed)
    return Calibrated(statistics, null.p_values(statistics, is_skewed=True), members, null)


def best_members(values: Vector, count: int) -> Members:
    """Those with the smallest values.

    Args:
        values: (demos,).
        count: how many.
    """
    chosen = np.zeros(len(values), np.bool_)
    chosen[np.argsort(values, kind="stable")[:count]] = True
    return chosen


@dataclass(frozen=True, eq=False)
class Null:
    """Statistics of sound demonstrations, beside which others are judged.

    Args:
        sound: (sound demonstrations, statistics).
        trusted: (target's demonstrations, statistics), whose spread counts where it is larger; NaN: unknown.
        least: (statistics,) values up to which nothing is unusual; of two-sided ones, in either direction.
        two_sided: statistics of which small values are unusual as well.
        least_spread: smallest standard deviation that is believed.
        share: which share of the sound ones was chosen, by the first statistic, which is corrected for that.
    """

    sound: Matrix
    trusted: Matrix | None = None
    least: Vector | None = None
    two_sided: tuple[int, ...] = ()
    least_spread: float = 0.0
    share: float = 1.0

    def first_p_values(self, values: Vector) -> Vector:
        """Of values of the first statistic."""
        trusted = None if self.trusted is None else self.trusted[:, 0]
        return predictive_p_values(values, self.sound[:, 0], self.least_spread, trusted)

    def p_values(self, statistics: Matrix, *, is_skewed: bool = False) -> Matrix:
        """Of every demonstration and statistic.

        Args:
            statistics: (demos, statistics).
            is_skewed: whether tails are as heavy as the skewness of sound ones says.
        """
        p_values = np.empty_like(statistics)
        for column, values in enumerate(statistics.T):
            sound = self.sound[:, column]
            if column == 0 and self.share < 1.0:
                sound = untruncated(sound, self.share)
            trusted = None if self.trusted is None else self.trusted[:, column]
            above = predictive_p_values(values, sound, self.least_spread, trusted, is_skewed=is_skewed)
            if column in self.two_sided:
                below = predictive_p_values(-values, -sound, self.least_spread, trusted, is_skewed=is_skewed)
                above = np.minimum(1.0, 2 * np.minimum(above, below))
            if self.least is not None:
                sizes = np.abs(values) if column in self.two_sided else values
                above = np.where(sizes <= self.least[column], 1.0, above)
            p_values[:, column] = above
        return p_values
