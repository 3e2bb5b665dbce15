"""decisions.jsonl: what people decided about demonstrations, one line a decision; the last one counts.

A line is ``{"dataset": "sim.hdf5", "demonstration": "demo_3", "decision": "drop"}``; ``who``, ``when`` and
``note`` may be there, too. ``dataset`` is the name of the file or folder alone, so that it may be moved.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from beacon.data.errors import listing
from beacon.errors import UserError
from beacon.plain import from_plain

LARGEST = 2**26  # bytes


@dataclass(frozen=True)
class Decision:
    """What somebody decided about one demonstration."""

    dataset: str  # name of the file or folder
    demonstration: str
    decision: Literal["keep", "drop", "undo"]  # undo takes back what was decided before
    who: str = ""
    when: str = ""
    note: str = ""


@dataclass(frozen=True)
class Decisions:
    """All decisions of a file that count."""

    file: Path
    decided: tuple[Decision, ...]

    def names(self, dataset: Path, decision: Literal["keep", "drop"], known: Sequence[str]) -> set[str]:
        """Demonstrations of a dataset that were decided about so.

        Args:
            dataset: the file or folder.
            decision: which decision.
            known: all demonstrations of the dataset; a decision about any other is refused.
        """
        own = [item for item in self.decided if item.dataset == dataset.name]
        unknown = sorted({item.demonstration for item in own} - set(known))
        if unknown:
            raise UserError(f"{self.file}: {dataset} has no {listing(unknown)}")
        return {item.demonstration for item in own if item.decision == decision}


def read_decisions(file: Path) -> Decisions:
    """The decisions of a file.

    Args:
        file: decisions.jsonl.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise UserError(f"{file}: larger than {LARGEST:,} bytes")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    latest: dict[tuple[str, str], Decision] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item: Decision = from_plain(Decision, json.loads(line))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}, line {number}: {error}") from None
        latest[item.dataset, item.demonstration] = item
    return Decisions(file, tuple(item for item in latest.values() if item.decision != "undo"))
