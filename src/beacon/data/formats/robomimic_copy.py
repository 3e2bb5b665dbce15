"""Copying chosen demonstrations of a robomimic file, byte for byte as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beacon.data.errors import listing
from beacon.data.formats import open_dataset
from beacon.data.formats.hdf5_output import create_hdf5
from beacon.data.formats.robomimic import HDF5_ERRORS, open_hdf5
from beacon.data.formats.robomimic_writer import write_masks
from beacon.errors import UserError
from beacon.files import replacing

ORIGINAL_NAME = "original_name"
ORIGINAL_FILE = "original_file"


def copy_episodes(
    src_path: str | Path,
    dst_path: str | Path,
    episode_names: Sequence[str],
    *,
    attributes: Mapping[str, Mapping[str, Any]]
    | None = None,  # original name -> more to note, e.g. its weight
    overwrite: bool = False,
) -> None:
    """A new dataset with these demonstrations, in this order, as demo_0, demo_1, ...

    Everything in them and about the dataset is copied. Each notes its ``original_name`` and
    ``original_file``; masks keep what is left of them, under the new names.
    """
    source, destination = Path(src_path), Path(dst_path)
    if destination.exists():
        if source.exists() and destination.samefile(source):
            raise UserError(f"{destination}: the copy cannot replace the file it is made from")
        if not overwrite:
            raise UserError(f"{destination} exists already; choose another name or allow overwriting it")
    names = list(episode_names)
    if not names:
        raise UserError(f"{destination}: no demonstration of {source} was chosen")
    with open_dataset(source) as reader:
        masks = reader.masks
        unknown = sorted(set(names) - set(reader.episode_names))
        for name in names:
            if name not in unknown:
                reader.arrays(name)
    if unknown:
        raise UserError(f"{source} has no {listing(unknown)}")
    if len(set(names)) < len(names):
        raise UserError(f"{destination}: a demonstration of {source} was chosen twice")

    renamed = {name: f"demo_{i}" for i, name in enumerate(names)}
    with replacing(destination) as temporary, open_hdf5(source) as old, create_hdf5(temporary) as (new, disk):
        for key, value in old.attrs.items():
            new.attrs[key] = value
        data = new.create_group("data")
        for key, value in old["data"].attrs.items():
            data.attrs[key] = value
        total = 0
        for name, number in renamed.items():
            try:
                # Links inside of the file are followed: the copy must stand on its own. Links to other files
                # and storage in other files were refused when the reader looked at every array.
                old.copy(f"data/{name}", data, name=number, expand_soft=True)
            except HDF5_ERRORS as error:
                raise UserError(f"{source}, {name}: cannot be read, the file is damaged ({error})") from error
            disk.check()
            data[number].attrs[ORIGINAL_NAME] = name
            data[number].attrs[ORIGINAL_FILE] = source.name
            for key, value in (attributes or {}).get(name, {}).items():
                data[number].attrs[key] = value
            total += int(data[number]["actions"].shape[0])
        data.attrs["total"] = total
        left = {key: [renamed[n] for n in chosen if n in renamed] for key, chosen in masks.items()}
        write_masks(new, {key: chosen for key, chosen in left.items() if chosen})
