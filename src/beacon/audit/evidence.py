"""What an audit says of a demonstration: evidence with a p-value, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
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


def evidence_from_scores(
    check: str, kind: str, scores: Vector, least: float, words: Callable[[int], str]
) -> list[Evidence]:
    """Evidence against demonstrations whose score, in standard deviations of sound ones, is large.

    Args:
        check: name of the check.
        kind: what is wrong.
        scores: (demos,) standard deviations above the usual.
        least: score from which on something is said.
        words: what is wrong with a demonstration, by its number.
    """
    from scipy.stats import norm

    return [
        Evidence(check, kind, number, float(scores[number]), float(norm.sf(scores[number])), words(number))
        for number in np.flatnonzero(scores > least).tolist()
    ]


def predictive_p_values(values: Vector, null: Vector, least_spread: float) -> Vector:
    """One-sided p-values of values against a small sample of sound ones, by Student's predictive
    distribution.

    p = 1 − T_{n−1}((x − mean) / (s √(1 + 1/n))), with s at least ``least_spread``. Unlike ranks, it can be
    small although the sample is.

    Args:
        values: (m,) what is judged, on a scale on which sound values are about normal, such as a logarithm.
        null: (n,) the same of demonstrations that are taken to be sound; at least two.
        least_spread: smallest standard deviation that is believed.
    """
    from scipy.stats import t as student

    count = len(null)
    if count < 2:
        return np.ones(len(values))
    spread = max(float(np.std(null, ddof=1)), least_spread)
    statistic = (values - float(np.mean(null))) / (spread * np.sqrt(1 + 1 / count))
    return np.asarray(student.sf(statistic, count - 1))


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


def strongest(evidence: Sequence[Evidence]) -> Evidence | None:
    """The evidence with the smallest p-value; of equal ones the larger score."""
    faults = [item for item in evidence if item.is_fault]
    return min(faults, key=lambda item: (item.p_value, -item.score)) if faults else None
