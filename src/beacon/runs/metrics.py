"""metrics.jsonl: a JSON object a line, "kind" (train, refresh, validation, evaluation), "step", numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.runs.reading import damaged

LARGEST_STEP = 2**53  # beyond it steps are not exact as floating-point numbers
Entry = dict[str, Any]


@dataclass(frozen=True)
class MetricsLog:
    """All usable lines by kind, each kind in the order of its steps."""

    train: list[Entry] = field(default_factory=list)
    refreshes: list[Entry] = field(default_factory=list)
    validation: list[Entry] = field(default_factory=list)
    evaluations: list[Entry] = field(default_factory=list)  # early looks at success
    damaged: int = 0  # lines that were cut off or cannot be used

    @property
    def last_step(self) -> int:
        """Gradient steps that were logged."""
        return max((int(entry["step"]) for entry in self.train), default=0)


def parse_line(line: bytes) -> Entry | None:
    """One line; None where it was cut off or damaged.

    Args:
        line: without its end.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        return None
    step = entry.get("step")
    usable = isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= LARGEST_STEP
    return entry if usable else None


def read_metrics(file: Path) -> MetricsLog:
    """A metrics file, with tolerance: lines that cannot be used are counted and left out.

    Args:
        file: a missing one has no lines.
    """
    kinds: dict[str, dict[int, Entry]] = {"train": {}, "refresh": {}, "validation": {}, "evaluation": {}}
    unusable = 0
    for _, entry in _lines(file):
        if entry is None:
            unusable += 1
        elif entry["kind"] in kinds:
            kinds[entry["kind"]][entry["step"]] = entry  # a resumed run may say a step again
    train, refreshes, validation, evaluations = (
        [entries[step] for step in sorted(entries)] for entries in kinds.values()
    )
    return MetricsLog(train, refreshes, validation, evaluations, unusable)


def lines_until(file: Path, step: int) -> bytes:
    """The usable lines of a run up to its checkpoint at ``step``, byte for byte.

    Args:
        file: a missing one has no lines.
        step: where the run stands; a refresh belongs to the epoch after its step.
    """
    kept = [
        line + b"\n"
        for line, entry in _lines(file)
        if entry is not None and entry["step"] < step + (entry["kind"] != "refresh")
    ]
    return b"".join(kept)


def series(entries: Sequence[Mapping[str, Any]], key: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and values of the entries that have a finite number under ``key``.

    Args:
        entries: lines of one kind.
        key: name of the number.
    """
    points = []
    for entry in entries:
        value = entry.get(key)
        if isinstance(value, int | float) and abs(value) <= 1e300:  # also no for NaN
            points.append((float(entry["step"]), float(value)))
    steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return steps, values


def _lines(file: Path) -> Iterator[tuple[bytes, Entry | None]]:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise damaged(file, error.strerror or error) from None
    except MemoryError:
        raise UserError(f"{file}: larger than the memory") from None
    for line in content.splitlines():
        yield line, parse_line(line)
