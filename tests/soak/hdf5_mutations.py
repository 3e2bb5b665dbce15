"""HDF5 files with attributes, arrays, names and links that nobody expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from soak.hostile_values import TEXTS, Randomness, hostile_value

DTYPES = ("i1", "u1", "<i8", ">f8", "f2", "f4", "?", "c16", "S3", "M8[s]", "<f8")


def mutate_hdf5(file: Path, rng: Randomness) -> None:
    """Change attributes, arrays, names or links."""
    with h5py.File(file, "r+") as opened:
        nodes: list[Any] = []
        opened.visititems(lambda _, node: nodes.append(node))
        for _ in range(int(rng.choice([1, 1, 2, 4]))):
            node = nodes[int(rng.integers(len(nodes)))]
            if not node:  # removed before
                continue
            how = HDF5[int(rng.integers(len(HDF5)))]
            try:
                how(opened, node, rng)
            except (ValueError, TypeError, KeyError, OSError, RuntimeError, OverflowError):
                continue  # h5py itself refuses to write such a thing


def _set_attribute(opened: h5py.File, node: Any, rng: Randomness) -> None:
    known = [*node.attrs, "num_samples", "total", "env_args"]
    value = hostile_value(rng)
    node.attrs[known[int(rng.integers(len(known)))]] = json.dumps(value) if rng.random() < 0.3 else value


def _replace_array(opened: h5py.File, node: Any, rng: Randomness) -> None:
    shape = tuple(int(rng.choice([0, 1, 2, 3, 7])) for _ in range(int(rng.integers(5))))
    dtype = np.dtype(DTYPES[int(rng.integers(len(DTYPES)))])
    name = node.name
    if isinstance(node, h5py.Dataset) and rng.random() < 0.5:
        shape = node.shape
    del opened[name]
    opened[name] = np.zeros(shape, dtype)


def _spoil_values(opened: h5py.File, node: Any, rng: Randomness) -> None:
    if isinstance(node, h5py.Dataset) and node.size:
        flat = node[()].reshape(-1)
        flat[int(rng.integers(flat.size))] = rng.choice([np.nan, np.inf, 1e300, -1, 255])
        node[...] = flat.reshape(node.shape)


def _declare_huge(opened: h5py.File, node: Any, rng: Randomness) -> None:
    """An array that says to be huge and holds nothing."""
    name = node.name
    del opened[name]
    shape = tuple(int(size) for size in rng.choice([1, 3, 10_000, 10**6, 10**9], 3))
    opened.create_dataset(name, shape=shape, dtype="u1", chunks=(1, 1, 1) if rng.random() < 0.2 else True)


def _remove(opened: h5py.File, node: Any, rng: Randomness) -> None:
    del opened[node.name]


def _rename(opened: h5py.File, node: Any, rng: Randomness) -> None:
    name = TEXTS[int(rng.integers(len(TEXTS)))].replace("\0", "0") or "x"
    opened.move(node.name, f"{node.parent.name}/{name.replace('/', '_')}")


def _link(opened: h5py.File, node: Any, rng: Randomness) -> None:
    name, how = node.name, int(rng.integers(4))
    if how == 0:
        opened[f"{name}_again"] = opened[node.parent.name]  # a cycle of hard links
        return
    del opened[name]
    links = [h5py.SoftLink(name), h5py.SoftLink("/nowhere"), h5py.ExternalLink("/etc/passwd", "/")]
    opened[name] = links[how - 1]


def _virtual(opened: h5py.File, node: Any, rng: Randomness) -> None:
    if isinstance(node, h5py.Dataset):
        name, shape = node.name, node.shape
        layout = h5py.VirtualLayout(shape, node.dtype)
        source = opened.filename if rng.random() < 0.5 else "/dev/zero"
        layout[...] = h5py.VirtualSource(source, name, shape)
        del opened[name]
        opened.create_virtual_dataset(name, layout)


HDF5: tuple[Callable[[h5py.File, Any, Randomness], None], ...] = (
    *(_set_attribute, _set_attribute, _replace_array, _replace_array, _spoil_values),
    *(_declare_huge, _remove, _rename, _link, _virtual),
)
