"""decisions.jsonl: what people decided about demonstrations, one line a decision; the last one counts.

A line is ``{"dataset": "sim.hdf5", "demonstration": "demo_3", "decision": "drop"}``; ``who``, ``when``,
``note`` and ``id`` may be there, too. ``dataset`` is the name of the file or folder alone, so that it may be
moved. Lines are only ever added: to take one back is a line as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from beacon.data.errors import listing, printable
from beacon.errors import UserError
from beacon.files import sync, writing
from beacon.plain import OMIT_DEFAULT, from_plain, to_plain

try:
    import fcntl
except (
    ImportError
):  # pragma: no cover - not a POSIX system: two writers at the same moment are not kept apart
    fcntl = None  # type: ignore[assignment]

LARGEST = 2**26  # bytes
LONGEST_NOTE = 4_000  # characters

Verdict = Literal["keep", "drop", "repair"]
Word = Literal["keep", "drop", "repair", "note", "undo"]


@dataclass(frozen=True)
class Decision:
    """What somebody decided about one demonstration."""

    dataset: str  # name of the file or folder
    demonstration: str
    # undo takes back the decision that `undoes` names, or the latest; note only says something.
    decision: Word
    who: str = ""
    when: str = ""
    note: str = ""
    id: str = field(default="", metadata=OMIT_DEFAULT)  # by which an undo names it
    undoes: str = field(default="", metadata=OMIT_DEFAULT)

    @property
    def key(self) -> tuple[str, str]:
        """Which demonstration it is about."""
        return self.dataset, self.demonstration


@dataclass(frozen=True)
class DecidedDemo:
    """What stands about one demonstration after all lines of a file."""

    dataset: str
    demonstration: str
    decision: Verdict | None  # None: only a note
    who: str
    when: str
    note: str


@dataclass(frozen=True)
class DatasetDecisions:
    """The decisions about one dataset that training acts on; part of a run's configuration."""

    dataset: str  # name of the file or folder
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decisions:
    """All decisions of a file that count."""

    file: Path
    decided: tuple[DecidedDemo, ...]

    def check(self, datasets: Mapping[Path, Sequence[str]], *, others_alone: bool = False) -> None:
        """Refuse decisions about unknown demonstrations, and a file about other datasets alone.

        Args:
            datasets: every dataset in use, and the names of all its demonstrations.
            others_alone: whether a file that speaks only of other datasets is as good as an empty one.
        """
        by_name: dict[str, Path] = {}
        for path in datasets:
            name = dataset_name(path)
            if name in by_name and by_name[name].resolve() != path.resolve():
                raise UserError(
                    f"{self.file}: {by_name[name]} and {path} have the same name, by which decisions "
                    "know a dataset; rename one of them"
                )
            by_name[name] = path
        spoken_of = {item.dataset for item in self.decided}
        if spoken_of and not spoken_of & set(by_name) and not others_alone:
            raise UserError(
                f"{self.file}: its decisions are about {listing(sorted(spoken_of))}, "
                f"not about {listing(sorted(by_name))}"
            )
        for path, known in datasets.items():
            self._of(path, known)

    def names(self, dataset: Path, decision: Verdict, known: Sequence[str]) -> set[str]:
        """Demonstrations of a dataset that were decided about so.

        Args:
            dataset: the file or folder.
            decision: which decision.
            known: all demonstrations of the dataset; a decision about any other is refused.
        """
        return {item.demonstration for item in self._of(dataset, known) if item.decision == decision}

    def for_training(self, datasets: Mapping[Path, Sequence[str]]) -> tuple[DatasetDecisions, ...]:
        """What a run on these datasets has to know, in the order of its datasets.

        Args:
            datasets: every dataset of the run, and the names of all its demonstrations.
        """
        self.check(datasets)
        decisions = {}
        for path, known in datasets.items():
            dropped, kept = (self.names(path, verdict, known) for verdict in ("drop", "keep"))
            if dropped or kept:
                decisions[dataset_name(path)] = DatasetDecisions(
                    dataset_name(path),
                    tuple(name for name in known if name in dropped),
                    tuple(name for name in known if name in kept),
                )
        return tuple(decisions.values())

    def _of(self, dataset: Path, known: Sequence[str]) -> list[DecidedDemo]:
        own = [item for item in self.decided if item.dataset == dataset_name(dataset)]
        unknown = sorted({item.demonstration for item in own} - set(known))
        if unknown:
            raise UserError(f"{self.file}: {dataset} has no {listing(unknown)}")
        return own


def dataset_name(path: Path) -> str:
    """The name by which decisions know a dataset.

    Args:
        path: of the file, folder or card.
    """
    return path.resolve().name


def read_decisions(file: Path) -> Decisions:
    """The decisions of a file.

    Args:
        file: decisions.jsonl.
    """
    return Decisions(file, standing(read_lines(file)))


def standing(lines: Iterable[Decision]) -> tuple[DecidedDemo, ...]:
    """What stands about every demonstration after these lines, in the order of their first mention.

    Args:
        lines: as they were written.
    """
    logs: dict[tuple[str, str], list[Decision]] = {}
    for line in lines:
        log = logs.setdefault(line.key, [])
        if line.decision != "undo":
            log.append(line)
        elif line.undoes:
            log[:] = [earlier for earlier in log if earlier.id != line.undoes]
        elif log:
            log.pop()
    return tuple(_summary(key, log) for key, log in logs.items() if log)


def _summary(key: tuple[str, str], log: list[Decision]) -> DecidedDemo:
    latest = next((line for line in reversed(log) if line.decision != "note"), None)
    said = latest or log[-1]
    note = next((line.note for line in reversed(log) if line.decision == "note" or line.note), "")
    return DecidedDemo(*key, _verdict(said.decision), said.who, said.when, note)


def _verdict(word: Word) -> Verdict | None:
    return None if word == "note" or word == "undo" else word


def read_lines(file: Path) -> list[Decision]:
    """All lines of a file.

    A last line that has no end and cannot be read is one whose writing was cut short: it is left out.

    Args:
        file: decisions.jsonl.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise UserError(f"{file}: larger than {LARGEST:,} bytes")
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror or error})") from None
    decisions: list[Decision] = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            decisions.append(_parse(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines) and decisions:
                break
            raise UserError(f"{file}, line {number}: {printable(str(error))}") from None
    return decisions


def _parse(line: bytes) -> Decision:
    decision: Decision = from_plain(Decision, json.loads(line.decode()))
    return decision


def to_lines(decisions: Iterable[DatasetDecisions]) -> bytes:
    """The text of a decisions.jsonl that decides as these do.

    Args:
        decisions: about some datasets.
    """
    words: tuple[tuple[Word, str], ...] = (("drop", "dropped"), ("keep", "kept"))
    lines = [
        Decision(entry.dataset, name, word)
        for entry in decisions
        for word, field_name in words
        for name in getattr(entry, field_name)
    ]
    return b"".join(_line(line) for line in lines)


def _line(decision: Decision) -> bytes:
    return json.dumps(to_plain(decision)).encode() + b"\n"


def append_decision(file: Path, decision: Decision) -> None:
    """Add a line at once: when this returns it is on the disk, whoever else is writing.

    Args:
        file: decisions.jsonl; made if need be.
        decision: the new line.
    """
    line = _line(decision)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists()
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # let go when the descriptor is closed
            start = _mend_end(descriptor)
            try:
                _write_all(descriptor, line)
                os.fsync(descriptor)
            except OSError:  # the disk is full: half a line must not stay
                os.ftruncate(descriptor, start)
                raise
        finally:
            os.close(descriptor)
        if is_new:
            sync(file.parent)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _mend_end(descriptor: int) -> int:
    """Let the file end with a whole line; gives its size. A line that was cut short is taken away."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    content = os.pread(descriptor, size, 0)
    kept = content.rfind(b"\n") + 1
    try:
        _parse(content[kept:])
    except (ValueError, RecursionError):
        os.ftruncate(descriptor, kept)
        return kept
    _write_all(descriptor, b"\n")  # a whole line of somebody's editor
    return size + 1
