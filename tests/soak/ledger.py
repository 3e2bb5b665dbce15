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
SAVE_EVERY = 5.0  # seconds
MOST_PROBLEMS = 200  # that are written down; all are counted


@dataclass(frozen=True)
class Origin:
    """What was tried, with what and where; numbers of different origins are not added."""

    seed: int
    commit: str
    machine: str

    @classmethod
    def here(cls, seed: int) -> Origin:
        """Code and machine of here.

        Args:
            seed: of the soak.
        """
        cores = len(os.sched_getaffinity(0))
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
class Ledger:
    """Attempts, faults and problems of one campaign.

    Args:
        file: where it is kept.
        origin: what is tried.
    """

    file: Path
    origin: Origin
    next: int = 0  # number of the next attempt
    tried: int = 0
    failed: int = 0
    seconds: float = 0.0
    complete: bool = False
    measured: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _saved: float = 0.0

    @classmethod
    def load(cls, file: Path, origin: Origin) -> Ledger:
        """The ledger in a file; a new one where there is none, or one of another origin."""
        ledger = cls(file, origin)
        if file.exists():
            stored = json.loads(file.read_text())
            if stored.pop("origin") == asdict(origin):
                for name, value in stored.items():
                    setattr(ledger, name, value)
        return ledger

    @property
    def survived(self) -> int:
        """Faults that did no harm."""
        return self.tried - self.failed

    def add(self, tried: int, problem: str | None, measured: Mapping[str, float], seconds: float) -> None:
        """Note an attempt.

        Args:
            tried: faults in it.
            problem: what did not hold.
            measured: numbers of which the largest are kept.
            seconds: that it took.
        """
        if problem is not None:
            self.failed += max(1, tried)
            self.problems = [*self.problems, f"attempt {self.next}: {problem}"][:MOST_PROBLEMS]
        self.tried += max(tried, 0 if problem is None else 1)
        self.seconds += seconds
        self.next += 1
        for name, value in measured.items():
            self.measured[name] = max(value, self.measured.get(name, value))
        if problem is not None or time.monotonic() - self._saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write it down."""
        self._saved = time.monotonic()
        plain = {
            "origin": asdict(self.origin),
            "next": self.next,
            "tried": self.tried,
            "failed": self.failed,
            "seconds": round(self.seconds, 1),
            "complete": self.complete,
            "measured": self.measured,
            "problems": self.problems,
        }
        write_bytes(self.file, (json.dumps(plain, indent=1) + "\n").encode())
