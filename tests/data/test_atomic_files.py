"""A file is whole or absent, whatever happens while it is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beacon.errors import RunError
from beacon.files import remove_leftovers, replacing, write_bytes


def test_a_reader_of_the_old_file_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with path.open("rb") as reader:
        write_bytes(path, b"new and longer")
        assert reader.read() == b"old"  # renamed over, not written into
    assert path.read_bytes() == b"new and longer"


def test_nothing_changes_when_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_bytes(b"half of the n")
        assert path.read_bytes() == b"old" and temporary.parent == path.parent
        1 / 0  # noqa: B018
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RunError, match=r"cannot write .*/file/x: .*; all is lost"):
        write_bytes(tmp_path / "file" / "x", b"", "all is lost")


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file[1]"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead, alive = f".{path.name}.{ended.pid}", f".{path.name}.{os.getpid()}"
    for name in (f"{dead}-0123abcd.tmp", f"{alive}-0123abcd.tmp", f".other.{ended.pid}-0123abcd.tmp"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / f".{path.name}.notes.tmp").write_bytes(b"somebody's own")
    write_bytes(path, b"whole")
    left = {f"{alive}-0123abcd.tmp", f".other.{ended.pid}-0123abcd.tmp", f".{path.name}.notes.tmp", path.name}
    assert {entry.name for entry in tmp_path.iterdir()} == left
    (tmp_path / f"{dead}.partial").mkdir()
    (tmp_path / f"{dead}.partial" / "part").write_bytes(b"half")
    remove_leftovers(path, ".partial")
    assert {entry.name for entry in tmp_path.iterdir()} == left


def test_a_relative_name_with_a_colon_is_a_file_and_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with replacing(Path("cuda:99/table.parquet")) as temporary:
        pq.write_table(pa.table({"x": [1]}), temporary)
    assert pq.read_table(tmp_path / "cuda:99" / "table.parquet").to_pydict() == {"x": [1]}
