"""What a campaign is: a numbered series of attempts, each of which depends on seed and number alone."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from soak.ledger import Ledger

Randomness = np.random.Generator


@dataclass(frozen=True)
class Attempt:
    """What one attempt showed."""

    tried: int = 1  # faults in it, such as the kills of one run
    problem: str | None = None  # what did not hold; None: everything did
    measured: Mapping[str, float] = field(default_factory=dict)  # of which the largest are kept


class Campaign(ABC):
    """One way to try to break things.

    Args:
        folder: for the campaign's files; what is in it survives an interrupted soak.
        small: a sample for `make test`, without what takes many seconds to set up.
    """

    name: ClassVar[str]
    what: ClassVar[str]  # in words, for the table
    unit: ClassVar[str]  # what is counted
    share: ClassVar[float]  # of the time
    sample: ClassVar[int]  # attempts in `make test`; 0: none, it takes too long
    planned: int  # attempts of the whole campaign; may be known only after `prepare`

    def __init__(self, folder: Path, *, small: bool = False) -> None:
        self.folder, self.small = folder, small
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def prepare(self) -> None:
        """Make what all attempts share."""

    @abstractmethod
    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """Try once.

        Args:
            number: of the attempt, from 0.
            rng: of this attempt alone.
        """

    def close(self) -> None:
        """Let go of processes and servers."""
        return


def randomness(seed: int, name: str, number: int) -> Randomness:
    """The generator of one attempt."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), number])


def run(
    campaign: Campaign,
    ledger: Ledger,
    *,
    until: float,
    at_most: int | None = None,
    notify: Callable[[Ledger], None] = lambda _: None,
) -> None:
    """Try on from where the ledger stands.

    Args:
        campaign: prepared already.
        ledger: is told of every attempt.
        until: moment of `time.monotonic` after which no attempt begins.
        at_most: attempts in all; by default all that are planned.
        notify: called after every attempt.
    """
    planned = campaign.planned if at_most is None else min(at_most, campaign.planned)
    while ledger.next < planned and time.monotonic() < until:
        began = time.monotonic()
        attempt = campaign.attempt(ledger.next, randomness(ledger.origin.seed, campaign.name, ledger.next))
        ledger.add(attempt.tried, attempt.problem, attempt.measured, time.monotonic() - began)
        notify(ledger)
    ledger.complete = ledger.next >= campaign.planned
    ledger.save()
