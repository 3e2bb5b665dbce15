"""Damage and hostility for files: random bytes, trees of JSON and YAML, HDF5, Parquet and zip archives."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from soak.hdf5_mutations import mutate_hdf5
from soak.hostile_values import TEXTS, Randomness, hostile_value


def mutate_bytes(content: bytes, rng: Randomness) -> bytes:
    """Overwrite, cut, repeat, insert, flip, clear or swap some bytes."""
    data = bytearray(content)
    if not data:
        return bytes(rng.bytes(16))
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        start = int(rng.integers(len(data))) if data else 0
        length = int(rng.choice([1, 2, 4, 8, 40, 400]))
        how = int(rng.integers(8))
        piece = bytes(data[start : start + length])
        if how == 0:
            data[start : start + length] = rng.bytes(len(piece))
        elif how == 1:
            del data[start:]
        elif how == 2:
            data[start:start] = piece
        elif how == 3 and data:
            data[min(start, len(data) - 1)] ^= 1 << int(rng.integers(8))
        elif how == 4:
            data[start : start + length] = bytes(len(piece))
        elif how == 5:
            data[start : start + length] = b"\xff" * len(piece)
        elif how == 6:
            del data[start : start + length]
        else:
            other = int(rng.integers(len(data))) if data else 0
            data[other : other + length] = piece
    return bytes(data)


def mutate_tree(tree: Any, rng: Randomness) -> Any:
    """The same plain values with a few changed, removed, renamed, doubled or wrapped."""
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        parents = [tree, *_containers(tree)] if isinstance(tree, dict | list) else []
        if not parents or rng.random() < 0.02:
            return hostile_value(rng)
        parent = parents[int(rng.integers(len(parents)))]
        if not parent:
            continue
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = keys[int(rng.integers(len(keys)))]
        how = int(rng.integers(6))
        if how <= 2:
            parent[key] = hostile_value(rng)
        elif how == 3:
            del parent[key]
        elif how == 4:
            parent[key] = [parent[key]] if rng.random() < 0.5 else {"part": parent[key]}
        elif isinstance(parent, dict):
            parent[TEXTS[int(rng.integers(len(TEXTS)))]] = parent[key]
        else:
            parent.extend(parent[key : key + 1] * int(rng.choice([1, 1, 100])))
    return tree


def _containers(tree: Any) -> list[Any]:
    inner = list(tree.values()) if isinstance(tree, dict) else list(tree)
    found = [value for value in inner if isinstance(value, dict | list)]
    return found + [deeper for value in found for deeper in _containers(value)]


def mutate_json(file: Path, rng: Randomness) -> None:
    """Change values of a JSON file, or of one line of a .jsonl file."""
    if file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        number = int(rng.integers(len(lines)))
        lines[number] = json.dumps(mutate_tree(json.loads(lines[number]), rng))
        file.write_text("\n".join(lines) + "\n")
    else:
        file.write_text(json.dumps(mutate_tree(json.loads(file.read_text()), rng)))


def mutate_parquet(file: Path, rng: Randomness) -> None:
    """Drop, rename, retype, shorten or spoil a column."""
    table = pq.read_table(file)
    number = int(rng.integers(table.num_columns))
    name = table.column_names[number]
    rows = table.num_rows
    how = int(rng.integers(6))
    if how == 0:
        table = table.drop_columns([name])
    elif how == 1:
        names = list(table.column_names)
        names[number] = TEXTS[int(rng.integers(len(TEXTS)))].replace("\0", "0")
        table = table.rename_columns(names)
    elif how == 2:
        table = table.slice(0, int(rng.integers(rows + 1)))
    elif how == 3:
        table = table.set_column(number, name, pa.nulls(rows, table.schema.field(number).type))
    else:
        column: list[Any] = [
            [["a"]] * rows,
            [None] * rows,
            ["💥"] * rows,
            [float("nan")] * rows,
            [[1.0] * (n + 1) for n in range(rows)],
            [2**62] * rows,
            [-1] * rows,
            [b"\xff"] * rows,
            [{"bytes": b"no picture", "path": "/etc/passwd"}] * rows,
        ]
        table = table.set_column(number, name, pa.array(column[int(rng.integers(len(column)))]))
    pq.write_table(table, file)


def mutate_zip(file: Path, rng: Randomness) -> None:
    """Change one member of an archive: its bytes, its JSON, its name, or drop or double it."""
    with zipfile.ZipFile(file) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist() if not name.endswith("/")]
    number = int(rng.integers(len(members)))
    name, content = members[number]
    how = int(rng.integers(5))
    if how == 0:
        del members[number]
    elif how == 1:
        members.append(members[number])
    elif how == 2:
        members[number] = (("../../" + name) if rng.random() < 0.5 else f"/tmp/{name}", content)
    elif how == 3 and content[:1] in b"{[":
        members[number] = (name, json.dumps(mutate_tree(json.loads(content), rng)).encode())
    else:
        members[number] = (name, mutate_bytes(content, rng))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, content in members:
            archive.writestr(name, content)
    file.write_bytes(buffer.getvalue())


STRUCTURED: dict[str, Callable[[Path, Randomness], None]] = {
    ".json": mutate_json,
    ".jsonl": mutate_json,
    ".zarray": mutate_json,
    ".zattrs": mutate_json,
    ".zgroup": mutate_json,
    ".parquet": mutate_parquet,
    ".hdf5": mutate_hdf5,
    ".zip": mutate_zip,
}


def mutate_dataset(path: Path, rng: Randomness) -> str:
    """Change one file of a dataset, by its structure or byte by byte; says which and how.

    Args:
        path: a file, or a folder of which a file is chosen.
        rng: decides everything.
    """
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    file = files[int(rng.integers(len(files)))]
    suffix = file.suffix or file.name
    how = float(rng.random())
    if how < 0.5 and suffix in STRUCTURED:
        STRUCTURED[suffix](file, rng)
        return f"{file.name}, by structure"
    if how > 0.95 and len(files) > 1:
        other = files[int(rng.integers(len(files)))]
        content = other.read_bytes()
        file.unlink()
        if rng.random() < 0.5:
            file.write_bytes(content)
        return f"{file.name}, removed or replaced by {other.name}"
    file.write_bytes(mutate_bytes(file.read_bytes(), rng))
    return f"{file.name}, bytes"
