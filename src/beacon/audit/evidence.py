"""What an audit says of a demonstration: evidence with a p-value, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
SUSPICIOUS = 0.02  # p-value below which something is said; who is accused is decided later
RepairKind = Literal["lag", "sign", "scale", "offset", "permutation"]


@dataclass(frozen=True)
class Repair:
    """A change of the actions that makes a demonstration fit its motion.

    Args:
        kind: what is changed.
        lag: steps by which the actions are late; they are moved earlier by as much.
        signs: factor of every action dimension, 1 or -1.
        scale: what the actions are divided by, per dimension.
        offset: what is subtracted from the actions, per dimension.
        order: dimension ``order[d]`` of the file is dimension d of the robot.
        residual_before: misfit of actions and motion as recorded, in units of the usual one.
        residual_after: the same after the change.
    """

    kind: RepairKind
    residual_before: float
    residual_after: float
    lag: int = 0
    signs: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()
    offset: tuple[float, ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """One reason to doubt a demonstration.

    Args:
        check: name of the check that found it.
        kind: what is wrong, one word or two, the same for all demonstrations with that problem.
        demo: number of the demonstration in its set.
        score: how strong it is, in the check's own unit; larger is worse.
        p_value: how often a sound demonstration would look as bad.
        text: what is wrong, in words and numbers.
        frames: first and last frame that it concerns, where it concerns a part.
        repair: how to undo it, where that is known.
        is_fault: whether it speaks against the actions or pictures themselves. Otherwise it is a remark,
            such as "stands still", which accuses nobody.
    """

    check: str
    kind: str
    demo: int
    score: float
    p_value: float
    text: str
    frames: tuple[int, int] | None = None
    repair: Repair | None = None
    is_fault: bool = True

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        from dataclasses import asdict

        return asdict(self)


@dataclass(frozen=True, eq=False)
class CheckResult:
    """What one check says of a set.

    Args:
        p_values: (demos,) how often a sound demonstration would look as bad; 1 where it cannot tell.
        scores: (demos,) larger is worse.
        evidence: against those that are unusual.
        remark: about the whole set, or why the check cannot tell.
    """

    p_values: Vector
    scores: Vector
    evidence: list[Evidence]
    remark: str | None = None

    @classmethod
    def silent(cls, demos: int, remark: str | None = None) -> CheckResult:
        """Of a check that cannot tell."""
        return cls(np.ones(demos), np.zeros(demos), [], remark)


def evidence_from_p_values(
    check: str, kind: str, p_values: Vector, scores: Vector, words: Callable[[int], str]
) -> list[Evidence]:
    """Evidence against demonstrations with a small p-value.

    Args:
        check: name of the check.
        kind: what is wrong.
        p_values: (demos,).
        scores: (demos,) larger is worse.
        words: what is wrong with a demonstration, by its number.
    """
    return [
        Evidence(check, kind, number, float(scores[number]), float(p_values[number]), words(number))
        for number in np.flatnonzero(p_values < SUSPICIOUS).tolist()
    ]


def predictive_p_values(
    values: Vector,
    null: Vector,
    least_spread: float,
    trusted: Vector | None = None,
    *,
    is_skewed: bool = False,
) -> Vector:
    """One-sided p-values of values against a small sample of sound ones, by Student's predictive
    distribution.

    p = 1 − T_{n−1}((x − mean) / (s √(1 + 1/n))), with s at least ``least_spread``. Unlike ranks, it can be
    small although the sample is.

    Args:
        values: (m,) what is judged, on a scale on which sound values are about normal, such as a logarithm.
        null: (n,) the same of demonstrations that are taken to be sound; at least two.
        least_spread: smallest standard deviation that is believed.
        trusted: the same of other sound demonstrations, whose mean may differ. Where they vary more, their
            spread and their number count.
        is_skewed: whether a sample that is skewed to the right has the tail of a gamma distribution with the
            same skewness (Pearson's type III), where that is heavier.
    """
    from scipy.stats import pearson3, skew
    from scipy.stats import t as student

    count = len(null)
    if count < 2:
        return np.ones(len(values))
    spread, freedom = float(np.std(null, ddof=1)), count - 1
    if trusted is not None and len(trusted) > 2:
        other = float(np.std(trusted, ddof=1))  # not a number where it is unknown, which is not larger
        if other > spread:
            spread, freedom = other, len(trusted) - 1
    spread = max(spread, least_spread)
    statistic = (values - float(np.mean(null))) / (spread * np.sqrt(1 + 1 / count))
    p_values = np.asarray(student.sf(statistic, freedom))
    skewness = float(skew(null)) if is_skewed and np.std(null) > 0 else 0.0
    if skewness > 0:
        p_values = np.maximum(p_values, pearson3.sf(statistic, skewness))
    return p_values


def untruncated(values: Vector, share: float) -> Vector:
    """Values of the smallest ``share`` of a sample, moved and stretched to what all of a normal one would be.

    The best part of a set is too good to be the null of a sound one: its mean is too small, and so is its
    spread. Where the rest of the set is corrupted, this errs to the side of the accused.

    Args:
        values: (n,) the smallest of a larger sample.
        share: which share of it they are.
    """
    from scipy.stats import norm, truncnorm

    mean, variance = truncnorm.stats(-np.inf, norm.ppf(share), moments="mv")
    stretch = 1 / float(np.sqrt(variance))
    centre = float(np.mean(values))
    spread = float(np.std(values)) * stretch
    return np.asarray(centre - float(mean) * spread + (values - centre) * stretch)


def benjamini_hochberg(p_values: Vector, rate: float) -> NDArray[np.bool_]:
    """Which hypotheses are rejected at a false-discovery rate (Benjamini and Hochberg, 1995)."""
    count = len(p_values)
    if count == 0:
        return np.zeros(0, np.bool_)
    order = np.argsort(p_values, kind="stable")
    below = p_values[order] <= rate * np.arange(1, count + 1) / count
    last = int(np.flatnonzero(below).max()) + 1 if below.any() else 0
    rejected = np.zeros(count, np.bool_)
    rejected[order[:last]] = True
    return rejected
