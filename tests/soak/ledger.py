"""What a campaign has tried so far, in a JSON file: an interrupted soak goes on where it was."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from beacon.files import write_bytes
from beacon.runs.provenance import processor

ROOT = Path(__file__).resolve().parents[2]
LEDGERS = Path(__file__).parent / "ledgers"  # kept with the code, so that a soak goes on on another machine
SAVE_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class Origin:
    """What is tried, with what and where."""

    seed: int
    commit: str
    machine: str

    @classmethod
    def here(cls, seed: int) -> Origin:
        """Code and machine of here.

        Args:
            seed: of the soak.
        """
        cores = os.cpu_count()
        system = f"{platform.system()}, Python {platform.python_version()}"
        return cls(seed, commit(), f"{cores} cores of {processor()}, no GPU, {system}")


def commit() -> str:
    """The commit of this checkout, with a plus if files that are tracked were changed."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")


@dataclass
class Failure:
    """An attempt that was not survived; it is tried again with the next commit."""

    attempt: int
    faults: int
    problem: str
    commit: str  # with which it was tried last


@dataclass
class Ledger:
    """Attempts, faults and problems of one campaign with one seed.

    An attempt depends on seed and number alone, so that a soak goes on with another commit: what failed is
    tried again, and counted as mended if it holds then.

    Args:
        file: where it is kept.
        origin: what is tried.
    """

    file: Path
    origin: Origin
    next: int = 0  # number of the next attempt
    tried: int = 0
    mended: int = 0  # attempts that failed with an earlier commit, and hold with a later one
    seconds: float = 0.0
    complete: bool = False
    plan: str = ""  # of the campaign: what the numbers of attempts mean
    measured: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)  # attempts with each commit and machine
    _saved: float = 0.0

    @classmethod
    def load(cls, file: Path, origin: Origin) -> Ledger:
        """The ledger in a file; a new one where there is none, or one of another seed."""
        ledger = cls(file, origin)
        if file.exists():
            stored = json.loads(file.read_text())
            if stored.pop("seed") == origin.seed:
                stored["failures"] = [Failure(**failure) for failure in stored["failures"]]
                for name, value in stored.items():
                    setattr(ledger, name, value)
        return ledger

    @property
    def failed(self) -> int:
        """Faults that did harm."""
        return sum(failure.faults for failure in self.failures)

    @property
    def survived(self) -> int:
        """Faults that did no harm."""
        return self.tried - self.failed

    def follow(self, plan: str) -> None:
        """Begin at the first attempt if the numbers mean others than before; what was survived still counts.

        Args:
            plan: of the campaign.
        """
        if plan != self.plan:
            self.tried -= self.failed  # these are among those that are tried anew
            self.plan, self.next, self.complete, self.failures = plan, 0, False, []

    def add(self, tried: int, problem: str | None, measured: Mapping[str, float], seconds: float) -> None:
        """Note the next attempt.

        Args:
            tried: faults in it.
            problem: what did not hold.
            measured: numbers of which the largest are kept.
            seconds: that it took.
        """
        if problem is not None:
            tried = max(1, tried)
            self.failures.append(Failure(self.next, tried, problem, self.origin.commit))
        self.tried += tried
        self.next += 1
        origin = f"commit {self.origin.commit}; {self.origin.machine}"
        self.made[origin] = self.made.get(origin, 0) + 1
        self._note(measured, seconds, save=problem is not None)

    def repeat(self, failure: Failure, problem: str | None, seconds: float) -> None:
        """Note that an attempt that failed was tried again.

        Args:
            failure: of this ledger.
            problem: what does not hold still; None: it is mended.
            seconds: that it took.
        """
        if problem is None:
            self.failures.remove(failure)
            self.mended += 1
        else:
            failure.problem, failure.commit = problem, self.origin.commit
        self._note({}, seconds, save=True)

    def _note(self, measured: Mapping[str, float], seconds: float, *, save: bool) -> None:
        self.seconds += seconds
        for name, value in measured.items():
            self.measured[name] = max(value, self.measured.get(name, value))
        if save or time.monotonic() - self._saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write it down."""
        self._saved = time.monotonic()
        plain = asdict(self) | {"seed": self.origin.seed, "seconds": round(self.seconds, 1)}
        for name in ("file", "origin", "_saved"):
            del plain[name]
        write_bytes(self.file, (json.dumps(plain, indent=1) + "\n").encode())
