"""Reading HDF5 files of others: nothing outside of the file, nothing larger than what the file holds.

HDF5 can point out of a file in three ways: links to other files, raw storage in other files and virtual
datasets. A dataset that came by mail could so show any file of the machine, or hang on a pipe.
"""

from __future__ import annotations

from math import prod
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.errors import UserError

MOST_LINKS = 16  # links that lead to links
# What is stored can grow when it is unpacked: deflate at most about 1,030 times.
LARGEST_EXPANSION = 1100
ALWAYS_ALLOWED = 1 << 20  # bytes that may be declared without being stored
LARGEST_ATTRIBUTE = 1 << 24  # bytes
MOST_CHUNKS = 100_000  # of an array; each takes some 4 KB when it is read, stored or not

ADVICE = "; copy everything into one file, for example with h5repack"


def follow(group: h5py.Group, name: str, links: int = 0) -> Any:
    """The object of that name, links inside of the file followed; None where there is none.

    Every step of a path is looked at before it is taken: opening a link to another file opens that file.
    """
    if links > MOST_LINKS:
        raise UserError(f"'{printable(name)}' is a circle of links{ADVICE}")
    current: Any = group["/"] if name.startswith("/") else group
    for step in (part for part in name.split("/") if part not in ("", ".")):
        if not isinstance(current, h5py.Group):
            return None
        if _is_hard_link(current, step):
            current = current.get(step)
            continue
        try:
            link = current.get(step, getlink=True)
        except (TypeError, KeyError, ValueError, RuntimeError):  # TypeError: a link of an unknown class
            link = None if step not in current else h5py.ExternalLink("?", "?")
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise UserError(f"'{printable(step)}' is a link to another file, which is not followed{ADVICE}")
        if isinstance(link, h5py.SoftLink):
            current = follow(current, link.path, links + 1)
        else:
            current = current.get(step)
    return checked(current, name)


def _is_hard_link(group: h5py.Group, name: str) -> bool:
    """Whether a name is certainly an object of this file: one look instead of three."""
    try:
        return bool(group.id.links.get_info(name.encode()).type == h5py.h5l.TYPE_HARD)
    except (KeyError, ValueError, RuntimeError, TypeError, OSError):
        return False


def checked(item: Any, name: str) -> Any:
    """The object itself, unless its values are somewhere else."""
    if isinstance(item, h5py.Dataset):
        layout = item.id.get_create_plist()
        if layout.get_layout() == h5py.h5d.VIRTUAL:
            raise UserError(f"'{printable(name)}' is a virtual dataset, which is not followed{ADVICE}")
        if layout.get_external_count():
            raise UserError(
                f"'{printable(name)}' is stored in another file (external storage), which is not read{ADVICE}"
            )
    return item


def read_whole(item: h5py.Dataset, name: str) -> NDArray[Any]:
    """All values, after a look at whether the file can hold as many as it declares."""
    check_size(item, name)
    return np.asarray(item[()])


def check_size(item: h5py.Dataset, name: str) -> None:
    """Refuse an array that declares much more than is stored of it."""
    shape = item.shape or ()
    declared = prod(shape) * int(item.dtype.itemsize)
    if declared > ALWAYS_ALLOWED:
        stored = int(item.id.get_storage_size())
        expansion = LARGEST_EXPANSION if item.id.get_create_plist().get_nfilters() else 1
        if declared > stored * expansion:
            raise UserError(
                f"'{printable(name)}' declares {declared:,} bytes, but the file holds {stored:,} of it: "
                "it is damaged or was never written"
            )
    if prod(shape) <= MOST_CHUNKS:
        return
    parts = item.chunks or shape
    chunks = prod(-(-size // part) for size, part in zip(shape, parts, strict=True) if part)
    if chunks > MOST_CHUNKS:
        raise UserError(
            f"'{printable(name)}' declares {chunks:,} chunks, at most {MOST_CHUNKS:,} are read; "
            "store it in larger chunks, for example with h5repack"
        )


def attribute(owner: Any, name: str) -> Any:
    """The value of an attribute; None where there is none or it is too large to be meant."""
    if name not in owner.attrs:
        return None
    stored = h5py.h5a.open(owner.id, name.encode())
    if stored.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        return None
    if stored.get_storage_size() > LARGEST_ATTRIBUTE:
        return None
    return owner.attrs[name]


def address(item: Any) -> tuple[int, int]:
    """What identifies an object however it was reached: two names may be one group."""
    info = h5py.h5o.get_info(item.id)
    return (int(info.fileno), int(info.addr))
