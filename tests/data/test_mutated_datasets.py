"""Datasets with random bytes changed: check and inspect answer with 0 or 2, never with a traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from raw_datasets import write_raw
from raw_lerobot import write_v21, write_v30, write_zarr

MUTATIONS = 25  # of each format; a process of its own, because a library may crash as a whole
SCRIPT = """
import sys, traceback, warnings
from beacon.cli.main import main
warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    for verb in ("check", "inspect"):
        try:
            code = main(["data", verb, path])
        except BaseException:
            traceback.print_exc()
            code = -1
        if code not in (0, 2):
            sys.exit(f"{verb} {path}: {code}")
"""
WRITERS = {
    "hdf5": lambda folder: write_raw(folder / "demos.hdf5", lengths=(3, 2)),
    "v2.1": lambda folder: write_v21(folder / "data", lengths=(3, 2)),
    "v3.0": lambda folder: write_v30(folder / "data", lengths=(3, 2), images=True),
    "zarr": lambda folder: write_zarr(folder / "data.zarr.zip", lengths=(3, 2)),
}


def mutate(path: Path, rng: np.random.Generator) -> None:
    """Overwrite, cut or repeat some bytes of one file of a dataset."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    file = files[int(rng.integers(len(files)))]
    content = bytearray(file.read_bytes())
    start = int(rng.integers(len(content)))
    length = int(rng.integers(1, 40))
    how = int(rng.integers(4))
    if how == 0:
        content[start : start + length] = rng.bytes(len(content[start : start + length]))
    elif how == 1:
        del content[start:]
    elif how == 2:
        content[start:start] = content[start : start + length]
    else:
        content[start] ^= 1 << int(rng.integers(8))
    file.write_bytes(content)


@pytest.mark.parametrize("name", WRITERS)
def test_mutations(name: str, tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    sound = WRITERS[name](tmp_path / "sound")
    paths = []
    for number in range(MUTATIONS):
        folder = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "sound", folder)
        paths.append(folder / sound.name)
        mutate(paths[-1], np.random.default_rng([7, number, len(name)]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, paths)], capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, done.stderr[-3000:]
