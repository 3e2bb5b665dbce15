"""Fixtures: tiny real HDF5 files, and a way to spoil them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pytest
from raw_datasets import Edit, MakeFile, write_raw


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    """Writes a file below tmp_path, as in ``make_file("sim.hdf5", lengths=(3, 4))``."""

    def make(name: str = "demos.hdf5", **options: Any) -> Path:
        return write_raw(tmp_path / name, **options)

    return make


@pytest.fixture
def edit() -> Edit:
    """Opens a file for writing, to spoil it in one particular way."""
    return lambda path: h5py.File(path, "r+")
