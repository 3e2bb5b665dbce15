"""decisions.jsonl behind the page: every decision goes to the file at once, and the file is what counts."""

from __future__ import annotations

import secrets
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from beacon.data.decisions import (
    LONGEST_NOTE,
    Decision,
    append_decision,
    read_decisions,
)
from beacon.desk.collection import Collection
from beacon.errors import UserError


class Journal:
    """The decisions about a collection.

    Args:
        file: decisions.jsonl; made by the first decision.
        collection: whose demonstrations are decided about.
        who: name of the person at the desk.
    """

    def __init__(self, file: Path, collection: Collection, who: str) -> None:
        self.file, self._collection, self._who = file, collection, who
        self._numbers = {
            (demo.dataset.name, demo.name): number for number, demo in enumerate(collection.demos)
        }
        self._known: tuple[str, list[dict[str, Any]]] = ("", [])
        self._lock = threading.Lock()
        if file.exists():
            read_decisions(file).check(collection.names, others_alone=True)

    def state(self) -> tuple[str, list[dict[str, Any]]]:
        """What stands now, whoever wrote it, and a version that changes with it."""
        with self._lock:
            version = self._version()
            if version != self._known[0]:
                decided = read_decisions(self.file).decided if version != "none" else ()
                self._known = (
                    version,
                    [
                        {
                            "demo": self._numbers[item.dataset, item.demonstration],
                            "decision": item.decision,
                            "who": item.who,
                            "when": item.when,
                            "note": item.note,
                        }
                        for item in decided
                        if (item.dataset, item.demonstration) in self._numbers
                    ],
                )
            return self._known

    def decide(self, demo: int, decision: Literal["keep", "drop", "repair", "note"], note: str = "") -> str:
        """Write a decision; gives the name by which it can be taken back.

        Args:
            demo: number of the demonstration.
            decision: what was decided.
            note: in words.
        """
        if len(note) > LONGEST_NOTE:
            raise UserError(f"a note has at most {LONGEST_NOTE:,} characters")
        identity = secrets.token_hex(6)
        append_decision(self.file, self._line(demo, decision, note=note, id=identity))
        return identity

    def undo(self, demo: int, identity: str) -> None:
        """Take a decision back, which is a line as well.

        Args:
            demo: number of the demonstration.
            identity: what `decide` gave.
        """
        append_decision(self.file, self._line(demo, "undo", undoes=identity))

    def _line(self, demo: int, decision: Any, **more: str) -> Decision:
        entry = self._collection.demos[demo]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        return Decision(entry.dataset.name, entry.name, decision, who=self._who, when=when, **more)

    def _version(self) -> str:
        try:
            stat = self.file.stat()
        except OSError:
            return "none"
        return f"{stat.st_size}-{stat.st_mtime_ns}"
