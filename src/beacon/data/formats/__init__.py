"""The dataset formats. A new one is one file here with ``probe(path)`` and ``open_reader(path)``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from beacon.data.formats.base import DatasetReader
from beacon.errors import UserError

# Asked in this order; the first that recognises the path reads it.
FORMATS = {"robomimic": "robomimic HDF5 (.hdf5, .h5)"}


def open_dataset(path: str | Path) -> DatasetReader:
    """Open a dataset of any known format."""
    path = Path(path)
    if not path.exists():
        unfinished = path.with_name(path.name + ".partial")
        if unfinished.exists():
            raise UserError(f"{path} is not finished yet: continue the command that writes it ({unfinished})")
        raise UserError(f"{path}: there is no such file")
    for name in FORMATS:
        module = import_module(f"beacon.data.formats.{name}")
        if module.probe(path):
            reader: DatasetReader = module.open_reader(path)
            return reader
    kind = "is a folder" if path.is_dir() else "has an unknown format"
    raise UserError(f"{path} {kind}; BEACON reads {', '.join(FORMATS.values())}")
