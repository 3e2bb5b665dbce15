"""The dataset formats. A new one is one file here, or in another package, with a `Format`."""

from __future__ import annotations

from pathlib import Path

from beacon.data.errors import printable
from beacon.data.formats.base import DatasetReader, DatasetWriter, Format, ReadOptions, WriteOptions
from beacon.errors import UserError
from beacon.registry import Registry

# Asked in this order; the first that recognises the path reads it.
FORMATS: Registry[Format] = Registry("dataset format", group="beacon.formats")
FORMATS.register_lazily("card", "beacon.data.card_reader:FORMAT")
FORMATS.register_lazily("robomimic", "beacon.data.formats.robomimic:FORMAT")
FORMATS.register_lazily("lerobot", "beacon.data.formats.lerobot:FORMAT")
FORMATS.register_lazily("zarr", "beacon.data.formats.diffusion_policy:FORMAT")


def open_dataset(path: str | Path, options: ReadOptions | None = None) -> DatasetReader:
    """Open a dataset of any known format, or the one that a card describes.

    Args:
        path: a file, a folder, or a card (.yaml).
        options: how it is opened.
    """
    path = Path(path)
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        raise UserError(f"{printable(str(path))[:200]}: cannot be a path ({error})") from None
    if not exists:
        unfinished = path.with_name(path.name + ".partial")
        if unfinished.exists():
            raise UserError(f"{path} is not finished yet: continue the command that writes it ({unfinished})")
        raise UserError(f"{path}: there is no such file")
    for format_ in FORMATS.values():
        if format_.probe(path):
            return format_.open_reader(path, options or ReadOptions())
    what = "is a folder of no known format" if path.is_dir() else "has an unknown format"
    raise UserError(f"{path} {what}; BEACON reads {_titles()}")


def create_dataset(path: str | Path, options: WriteOptions) -> DatasetWriter:
    """Begin a new dataset in the format that its name asks for: .hdf5, or a folder for LeRobot.

    Args:
        path: of the new dataset.
        options: how it is written.
    """
    path = Path(path)
    for format_ in FORMATS.values():
        if format_.writes is not None and format_.create_writer is not None and format_.writes(path):
            return format_.create_writer(path, options)
    titles = ", ".join(f.title for f in FORMATS.values() if f.create_writer is not None)
    raise UserError(f"{path}: the name says no format that BEACON writes; it writes {titles}")


def _titles() -> str:
    return ", ".join(format_.title for format_ in FORMATS.values())
