"""A paired test of two policies that may be looked at after every state, and stopped as soon as it decides.

It is an e-process (a test martingale by betting; Shafer 2021, Waudby-Smith and Ramdas 2024). Stopping early
has a price: at a number of states that is fixed beforehand, McNemar's test finds smaller differences
(`detectable_difference` says how much smaller). Both speak of these two policies, not of their methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

BETS = tuple(np.linspace(0.02, 0.98, 25).tolist())  # shares of the capital that the e-process stakes
DIFFERENCES = np.linspace(0.02, 0.98, 49)  # between success rates, that `detectable_difference` tries


def e_process(differences: ArrayLike, bets: Sequence[float] = BETS) -> NDArray[np.float64]:
    """Evidence after every state that the mean of paired differences is above 0, (..., n).

    E_n is the mean over λ of Π_{i ≤ n} (1 + λ dᵢ): the capital of gamblers who stake a share λ on the first
    policy. If the mean is not above 0, the probability that E_n ever reaches 1/α is at most α (Ville's
    inequality), however often one looks.

    Args:
        differences: dᵢ in [-1, 1], first minus second policy, in random order of the states, (..., n); half
            points and other graded scores are allowed.
        bets: the λ, each in (0, 1).
    """
    d = np.asarray(differences, np.float64)
    if d.ndim < 1 or not np.isfinite(d).all() or (np.abs(d) > 1).any():
        raise ValueError("differences: a list of numbers from -1 to 1 is needed")
    stakes = np.asarray(bets, np.float64).reshape(-1, *[1] * d.ndim)
    capital = np.cumsum(np.log1p(stakes * d), axis=-1)  # (bets, ..., n)
    largest = capital.max(axis=0, initial=-np.inf)
    return np.asarray(np.exp(largest) * np.exp(capital - largest).mean(axis=0))


@dataclass(frozen=True)
class SequentialTest:
    """What the e-processes for either policy came to."""

    evidence_first: float  # the largest so far that the first policy is better; at the start it is 1
    evidence_second: float  # the same for the second
    threshold: float  # evidence that decides
    better: Literal["first", "second"] | None  # None: not decided
    decided_after: int | None  # states; None: not decided
    states: int  # that were seen


def sequential_test(
    differences: ArrayLike,
    alpha: float = 0.05,
    alternative: Literal["greater", "two-sided"] = "two-sided",
) -> SequentialTest:
    """Whether, and after how many states, paired differences show that a policy is better.

    Two-sided is two one-sided e-processes, each at α/2: it decides when one of them reaches 2/α. So the
    probability of ever calling a policy better that is not is at most α.

    Args:
        differences: first minus second policy, as for `e_process`, (n,).
        alpha: probability of a false decision, over all looks together.
        alternative: "greater": is the first policy better; "two-sided": is either better.
    """
    d = np.asarray(differences, np.float64)
    if d.ndim != 1:
        raise ValueError("differences: one list of numbers is needed")
    sides = 2 if alternative == "two-sided" else 1
    threshold = sides / alpha
    evidence = [e_process(sign * d) for sign in (1, -1)]
    crossings = [np.flatnonzero(e >= threshold) for e in evidence[:sides]]
    first_crossing = [int(c[0]) if len(c) else len(d) for c in crossings]
    decided = min(first_crossing) < len(d)
    better: Literal["first", "second"] = "first" if first_crossing[0] == min(first_crossing) else "second"
    return SequentialTest(
        evidence_first=float(evidence[0].max(initial=1.0)),
        evidence_second=float(evidence[1].max(initial=1.0)),
        threshold=threshold,
        better=better if decided else None,
        decided_after=min(first_crossing) + 1 if decided else None,
        states=len(d),
    )


@dataclass(frozen=True)
class Detectable:
    """The smallest difference of two success rates that each test finds with the wanted power; None: none."""

    states: int
    power: float
    sequential: float | None  # looking after every state, up to all of them
    fixed: float | None  # McNemar's exact test, once, after all of them


def detectable_difference(
    states: int, alpha: float = 0.05, power: float = 0.8, *, draws: int = 400, seed: int = 0
) -> Detectable:
    """What it costs to be allowed to stop: detectable differences of both tests, by simulation.

    Outcomes are independent successes at rates ½ ± difference/2, where their variance is largest.

    Args:
        states: that are planned, at most.
        alpha: of both tests, two-sided.
        power: probability to find the difference.
        draws: simulated comparisons for each difference tried, fewer where there are thousands of states.
        seed: of the simulation.
    """
    draws = min(draws, max(50, 400_000 // states))
    uniform = np.random.default_rng(seed).random((2, draws, states))

    def smallest(test: Callable[[NDArray[np.float64]], NDArray[np.bool_]]) -> float | None:
        # The share of decisions grows with the difference, because all draws share their random numbers.
        low, high = 0, len(DIFFERENCES)
        while low < high:
            middle = (low + high) // 2
            half = DIFFERENCES[middle] / 2
            first, second = uniform[0] < 0.5 + half, uniform[1] < 0.5 - half
            decided = test(first.astype(np.float64) - second)
            low, high = (low, middle) if decided.mean() >= power else (middle + 1, high)
        return float(DIFFERENCES[low]) if low < len(DIFFERENCES) else None

    return Detectable(
        states,
        power,
        sequential=smallest(lambda d: (e_process(d) >= 2 / alpha).any(axis=-1)),
        fixed=smallest(lambda d: _mcnemar_rejects(d, alpha)),
    )


def _mcnemar_rejects(differences: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """Whether McNemar's exact two-sided test finds the first policy better, (draws,)."""
    from scipy.stats import binom

    wins, losses = (differences > 0).sum(axis=-1), (differences < 0).sum(axis=-1)
    return np.asarray((2 * binom.cdf(losses, wins + losses, 0.5) <= alpha) & (wins > losses))
