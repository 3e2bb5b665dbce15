"""Checksums of the files of a checkpoint: a flipped bit is noticed before it is trained on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from beacon.errors import UserError
from beacon.runs.reading import damaged, read_json

CHECKSUMS = "checksums.json"


def write_checksums(folder: Path) -> None:
    """Write the SHA-256 of every file of a folder into the folder."""
    sums = {file.name: _sha256(file) for file in sorted(folder.iterdir()) if file.name != CHECKSUMS}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=1) + "\n")


def find_damage(folder: Path) -> list[str]:
    """Files of a checkpoint that are not as they were written, a line each.

    A file that is not there any more was removed on purpose (`Run.slim`), and is not damage; one that is
    there and not listed is, since then a name in the list may be. A checkpoint of an earlier version has no
    checksums, and nothing is said of it.

    Args:
        folder: the checkpoint.
    """
    file = folder / CHECKSUMS
    try:
        sums = read_json(file)
    except FileNotFoundError:
        return []
    except UserError as error:
        return [str(error)]
    if not isinstance(sums, dict):
        return [str(damaged(file, "not a list of checksums"))]
    unlisted = [entry for entry in sorted(folder.iterdir()) if entry.name not in {CHECKSUMS, *sums}]
    return [
        f"{folder / name}: damaged (it is not as it was written)"
        for name, expected in sums.items()
        if "/" not in name and (folder / name).is_file() and _sha256(folder / name) != expected
    ] + [f"{file}: damaged (it does not list {entry.name})" for entry in unlisted]


def require_whole(folder: Path, before: Path | None) -> None:
    """Refuse a damaged checkpoint, and offer the one before it.

    Args:
        folder: the checkpoint.
        before: the checkpoint before it; None: there is none.
    """
    problems = find_damage(folder)
    if not problems:
        return
    offer = "there is no earlier one"
    if before is not None:
        offer = f"to go on from step {int(before.name)}, write {before.name} into {folder.parent / 'last'}"
    raise UserError(f"{problems[0]}; {offer}")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
