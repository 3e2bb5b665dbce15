"""Two single policies on the same initial states: is one better?

McNemar's exact test is for a number of states that was fixed beforehand. The e-process may be looked at after
every episode, and stopped as soon as it is large. Both speak of these two policies, not of their methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

BETS = tuple(np.linspace(0.02, 0.98, 25).tolist())  # shares of the capital that the e-process stakes


def mcnemar_exact(first: Sequence[bool], second: Sequence[bool]) -> dict[str, Any]:
    """McNemar's exact two-sided test on paired outcomes: are the discordant pairs a fair coin?

    Args:
        first: success of the first policy, one entry a state.
        second: success of the second policy in the same states.
    """
    if len(first) != len(second):
        raise ValueError("paired outcomes must have one length")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    discordant = only_first + only_second
    tail = sum(math.comb(discordant, k) for k in range(min(only_first, only_second) + 1))
    return {
        "only_first": only_first,
        "only_second": only_second,
        "difference": (only_first - only_second) / max(len(first), 1),
        "p_value": min(1.0, 2 * tail / 2**discordant),
    }


def e_process(differences: ArrayLike, bets: Sequence[float] = BETS) -> NDArray[np.float64]:
    """Evidence after every episode that the mean of paired differences is above 0, (n,).

    E_n is the mean over λ of Π_{i ≤ n} (1 + λ dᵢ): the capital of gamblers who stake a share λ on the first
    policy. If the mean is not above 0, the probability that E_n ever reaches 1/α is at most α (Ville's
    inequality), however often one looks.

    Args:
        differences: dᵢ in [-1, 1], first minus second policy, in random order of the states; half points and
            other graded scores are allowed.
        bets: the λ, each in (0, 1).
    """
    d = np.asarray(differences, np.float64)
    if d.ndim != 1 or not np.isfinite(d).all() or (np.abs(d) > 1).any():
        raise ValueError("differences: a list of numbers from -1 to 1 is needed")
    capital = np.cumsum(np.log1p(np.multiply.outer(np.asarray(bets, np.float64), d)), axis=1)  # (bets, n)
    largest = capital.max(axis=0, initial=-np.inf)
    return np.asarray(np.exp(largest) * np.exp(capital - largest).mean(axis=0))


@dataclass(frozen=True)
class SequentialTest:
    """What an e-process came to."""

    evidence: float  # the largest so far
    decided_after: int | None  # episodes; None: not decided
    episodes: int  # that were seen


def sequential_test(
    differences: ArrayLike,
    alpha: float = 0.05,
    alternative: Literal["greater", "two-sided"] = "two-sided",
) -> SequentialTest:
    """Whether, and after how many episodes, paired differences show that the policies differ.

    Args:
        differences: as for `e_process`.
        alpha: probability of a false alarm, over all looks together.
        alternative: "greater": is the first policy better; "two-sided": is either better.
    """
    d = np.asarray(differences, np.float64)
    evidence = e_process(d)
    if alternative == "two-sided":
        evidence = (evidence + e_process(-d)) / 2
    above = np.flatnonzero(evidence >= 1 / alpha)
    return SequentialTest(
        evidence=float(evidence.max(initial=1.0)),
        decided_after=int(above[0]) + 1 if len(above) else None,
        episodes=len(d),
    )
