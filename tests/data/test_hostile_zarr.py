"""Zarr datasets that are damaged or were made to harm: one line, nothing else is read."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_lerobot import write_zarr
from refusing import refuse


def rewrite(path: Path, name: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change, or remove, one file of a zip archive."""
    with zipfile.ZipFile(path) as archive:
        contents = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in contents.items():
            new = change(content) if entry == name else content
            if new is not None:
                archive.writestr(entry, new)


def header(**changes: object) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | changes).encode()


ZARR: dict[str, tuple[str, Callable[[bytes], bytes | None], str]] = {
    "huge shape": ("data/img/.zarray", header(shape=[18, 90_000, 90_000, 3]), "chunks: it is incomplete"),
    "huge chunk": (
        "data/img/.zarray",
        header(shape=[18, 60_000, 60_000, 3], chunks=[18, 60_000, 60_000, 3]),
        "not read",
    ),
    "steps": ("data/action/.zarray", header(shape=[17, 3]), "'meta/episode_ends' says 18 steps"),
    "pickle": ("data/action/.zarray", header(dtype="|O", filters=[{"id": "pickle"}]), "never unpickled"),
    "codec": ("data/action/.zarray", header(compressor={"id": "nobody_knows"}), "cannot be read"),
    "header": ("data/action/.zarray", lambda c: b"{", "is damaged"),
    "no header": ("data/img/.zarray", lambda c: None, "cannot be read"),
    "no ends": ("meta/episode_ends/.zarray", lambda c: None, "cannot be read"),
    "missing chunk": ("data/action/1.0", lambda c: None, "chunks: it is incomplete"),
    "damaged chunk": ("data/action/1.0", lambda c: b"x" * len(c), "cannot be read"),
}


@pytest.mark.parametrize("case", ZARR)
def test_bad_zarr(tmp_path: Path, case: str) -> None:
    name, change, text = ZARR[case]
    path = write_zarr(tmp_path / "data.zarr.zip")
    rewrite(path, name, change)
    refuse(path, text)


def test_a_group_in_place_of_the_ends_of_episodes(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "data.zarr.zip")
    rewrite(path, "meta/episode_ends/.zarray", lambda content: None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("meta/episode_ends/.zgroup", '{"zarr_format": 2}')
    refuse(path, "'meta/episode_ends' is not an array")


def test_arrays_without_headers_are_said_once(tmp_path: Path) -> None:
    # zarr prints what becomes of arrays that it opens side by side when they are forgotten.
    path = write_zarr(tmp_path / "data.zarr.zip")
    for name in ("img", "state"):
        rewrite(path, f"data/{name}/.zarray", lambda content: None)
    command = [sys.executable, "-m", "beacon", "data", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "") and "cannot be read" in done.stdout


def test_zip_bombs_and_what_is_no_zip(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "bomb.zip")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/img/junk", b"0" * (1 << 22))
        # The directory says less than it is: entries that lie over each other do the same.
        archive.infolist()[-1].file_size = 1 << 40
    refuse(path, "zip bomb")
    (tmp_path / "text.zip").write_text("hello")
    refuse(tmp_path / "text.zip", "is not a zip file")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "hello")
    refuse(tmp_path / "other.zip", "not a dataset of diffusion_policy")


def test_links_in_a_zarr_folder_are_not_followed(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "data")
    chunk = path / "data/action/1.0"
    chunk.unlink()
    chunk.symlink_to("/etc/passwd")
    refuse(path, "is a link")
