"""audit.json and audit.parquet: what an audit found, and which data it is of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon import __version__
from beacon.audit.run import AuditOptions, AuditResult, DemoVerdict, SetVerdict
from beacon.data.episodes import EpisodeSet
from beacon.data.formats import open_dataset
from beacon.data.formats.base import ACTIONS
from beacon.errors import UserError
from beacon.files import replacing, write_bytes
from beacon.plain import from_plain, to_plain
from beacon.runs.data_records import DomainRecord, describe, hash_actions
from beacon.runs.reading import damaged, read_json

JSON_FILE, TABLE_FILE, PAGE_FILE = "audit.json", "audit.parquet", "audit.html"


@dataclass(frozen=True)
class SavedAudit:
    """An audit, and the data that it is of."""

    version: str  # of BEACON
    options: AuditOptions
    data: tuple[DomainRecord, ...]  # sources in the order of the result's sets, the target last
    result: AuditResult

    @classmethod
    def of(
        cls, sources: Sequence[EpisodeSet], target: EpisodeSet, options: AuditOptions, result: AuditResult
    ) -> SavedAudit:
        """What is to be saved of an audit.

        Args:
            sources: the sets that were audited.
            target: what they were compared with.
            options: of the audit.
            result: what it found.
        """
        return cls(__version__, options, tuple(describe([*sources, target], has_target=True)), result)

    def verdict(self, record: DomainRecord, where: str) -> SetVerdict:
        """What the audit says of a source set, found by its demonstrations and their actions.

        Pictures are not compared: an audit may have looked at smaller ones.

        Args:
            record: of the set as it is now.
            where: the file that the audit was read from, for messages.
        """
        for known, verdict in zip(self.data, self.result.sets, strict=False):
            if _is_same(known, record):
                return verdict
        raise _other_data(where, record)

    def demo_verdicts(self, record: DomainRecord, where: str) -> list[DemoVerdict]:
        """What the audit says of every demonstration of a source set, of which some may be left out by now.

        Args:
            record: of the set as it is now.
            where: the file that the audit was read from, for messages.
        """
        for known, verdict in zip(self.data, self.result.sets, strict=False):
            if _is_same(known, record) or _is_part(known, record):
                demos = {demo.name: demo for demo in verdict.demos}
                return [demos[name] for name in record.demos]
        raise _other_data(where, record)

    def check_target(self, record: DomainRecord, where: str) -> None:
        """Refuse another target than the one that the sets were compared with.

        Args:
            record: of the target as it is now; demonstrations may be left out.
            where: the file that the audit was read from, for messages.
        """
        if not _is_same(self.data[-1], record) and not _is_part(self.data[-1], record):
            raise _other_data(where, record)


def _is_same(known: DomainRecord, record: DomainRecord) -> bool:
    return (known.demos, known.lengths, known.actions) == (record.demos, record.lengths, record.actions)


def _is_part(known: DomainRecord, record: DomainRecord) -> bool:
    """Whether these are some of the demonstrations that were audited; the dataset has to hold all of them."""
    lengths = dict(zip(known.demos, known.lengths, strict=True))
    own = zip(record.demos, record.lengths, strict=True)
    if any(lengths.get(name) != length for name, length in own) or not Path(record.file).exists():
        return False
    with open_dataset(record.file) as reader:
        if not set(known.demos) <= set(reader.episode_names):
            return False
        return hash_actions([reader.read(name, ACTIONS) for name in known.demos]) == known.actions


def _other_data(where: str, record: DomainRecord) -> UserError:
    return UserError(
        f"{where} is an audit of other data than {record.file} (other demonstrations or actions); "
        "run beacon audit again"
    )


def save_json(file: Path, audit: SavedAudit) -> None:
    """Write audit.json."""
    write_bytes(file, to_json(audit).encode())


def to_json(audit: SavedAudit) -> str:
    """The text of audit.json."""
    return json.dumps(to_plain(audit), indent=1, allow_nan=False) + "\n"


def read_audit(path: Path) -> SavedAudit:
    """The inverse of `save_json`.

    Args:
        path: audit.json, or the folder that it is in.
    """
    file = path / JSON_FILE if path.is_dir() else path
    try:
        content = read_json(file)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file; beacon audit --out DIR writes it") from None
    try:
        audit: SavedAudit = from_plain(SavedAudit, content)
    except UserError as error:
        raise damaged(file, error) from None
    if not audit.data:
        raise damaged(file, "it does not say which data it is of")
    shapes = [len(verdict.demos) for verdict in audit.result.sets]
    if shapes != [len(record.demos) for record in audit.data[:-1]]:
        raise damaged(file, "verdicts and data do not belong together")
    return audit


def save_table(file: Path, result: AuditResult) -> None:
    """Write audit.parquet: a row a demonstration."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [
        {
            "set": verdict.name,
            "path": verdict.path,
            "episode": number,
            "demonstration": demo.name,
            "frames": demo.frames,
            "score": demo.score,
            "p_value": demo.p_value,
            "accused": demo.is_accused,
            "kind": demo.evidence[0].kind if demo.evidence else "",
            "reason": demo.reason,
            "all_reasons": [item.text for item in demo.evidence],
        }
        for verdict in result.sets
        for number, demo in enumerate(verdict.demos)
    ]
    with replacing(file) as temporary:
        pq.write_table(pa.Table.from_pylist(rows), temporary)
