"""What a campaign is: a numbered series of attempts, each of which depends on seed and number alone."""

from __future__ import annotations

import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from soak.ledger import Ledger

Randomness = np.random.Generator
BATCH = 8  # attempts of each lane that are begun together
_thread = threading.local()


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
    parallel: ClassVar[bool] = False  # whether attempts may be made side by side, each in a lane of its own
    planned: int  # attempts of the whole campaign; may be known only after `prepare`
    plan: str = ""  # changes with what the numbers of attempts mean, where that depends on the code

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

    @property
    def lane(self) -> Path:
        """A folder of those who are in this lane alone."""
        folder = self.folder / f"lane-{lane_number()}"
        folder.mkdir(exist_ok=True)
        return folder

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


def lane_number() -> int:
    """Which of the attempts side by side this is."""
    return getattr(_thread, "lane", 0)


def _enter_lane(free: list[int]) -> None:
    _thread.lane = free.pop()


def randomness(seed: int, name: str, number: int) -> Randomness:
    """The generator of one attempt."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), number])


def run(
    campaign: Campaign,
    ledger: Ledger,
    *,
    until: float,
    at_most: int | None = None,
    lanes: int = 1,
    notify: Callable[[Ledger], None] = lambda _: None,
) -> None:
    """Try again what failed with another commit, then go on from where the ledger stands.

    Args:
        campaign: prepared already.
        ledger: is told of every attempt, in their order.
        until: moment of `time.monotonic` after which no attempt begins.
        at_most: attempts in all; by default all that are planned.
        lanes: attempts side by side, where the campaign can.
        notify: called after every attempt.
    """
    planned = campaign.planned if at_most is None else min(at_most, campaign.planned)
    ledger.follow(campaign.plan)

    def one(number: int) -> tuple[Attempt, float] | None:
        began = time.monotonic()
        if began > until:
            return None
        attempt = campaign.attempt(number, randomness(ledger.origin.seed, campaign.name, number))
        return attempt, time.monotonic() - began

    lanes = lanes if campaign.parallel else 1
    pool = ThreadPoolExecutor(lanes, initializer=_enter_lane, initargs=(list(range(lanes)),))
    try:
        old = [failure for failure in ledger.failures if failure.commit != ledger.origin.commit]
        for failure, done in zip(old, pool.map(one, [each.attempt for each in old]), strict=True):
            if done is not None:
                ledger.repeat(failure, done[0].problem, done[1])
                notify(ledger)
        going_on = True
        while going_on and ledger.next < planned:
            batch = range(ledger.next, min(planned, ledger.next + lanes * BATCH))
            for done in pool.map(one, batch):
                if done is None:  # so are all after it
                    going_on = False
                    break
                attempt, seconds = done
                ledger.add(attempt.tried, attempt.problem, attempt.measured, seconds)
                notify(ledger)
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted soak waits for what has begun alone
    ledger.complete = ledger.next >= campaign.planned
    ledger.save()
