"""Reading robomimic HDF5: what robosuite, robomimic and MimicGen write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing
from beacon.data.formats.base import ACTIONS, ArrayInfo, DatasetReader, Problem
from beacon.errors import UserError

# HDF5 reports damage through whichever exception the failing call happens to map to.
HDF5_ERRORS = (OSError, KeyError, RuntimeError, ValueError)
DEEPEST = 4  # groups inside a demonstration; a bound because links can form circles
LARGEST_ATTRIBUTE = 1 << 16  # bytes; `model_file` (a whole XML scene) is left out by name


def probe(path: Path) -> bool:
    """By name, or by the file's first bytes."""
    return path.is_file() and (path.suffix in (".hdf5", ".h5") or bool(h5py.is_hdf5(path)))


def episode_order(name: str) -> tuple[bool, int, str]:
    """Sorts demo_2 before demo_10, and names of another kind after them."""
    match = re.fullmatch(r"demo_(\d+)", name)
    return (match is None, int(match[1]) if match else 0, name)


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading, or say in one line why not."""
    try:
        return h5py.File(path, "r")
    except HDF5_ERRORS as error:
        text = str(error)
        if "truncated" in text or path.stat().st_size == 0:
            raise UserError(f"{path} is truncated; copy, download or generate it again") from error
        if "signature not found" in text:
            raise UserError(f"{path} is not an HDF5 file") from error
        if "unable to lock" in text:
            raise UserError(f"{path} is being written by another process; wait until it is done") from error
        raise UserError(f"{path} cannot be opened: {text}") from error


def open_reader(path: Path) -> RobomimicReader:
    """Open a robomimic dataset."""
    return RobomimicReader(path)


class RobomimicReader(DatasetReader):
    """``data/demo_<i>`` with ``actions`` and ``obs/<key>``; everything else is optional."""

    format_name = "robomimic HDF5"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_hdf5(path)
        try:
            self._open()
        except UserError:
            self.close()
            raise
        except HDF5_ERRORS as error:
            self.close()
            raise UserError(f"{path} is damaged: {error}") from error

    def _open(self) -> None:
        data = self._file.get("data")
        if not isinstance(data, h5py.Group):
            raise UserError(
                f"{self.path} has no group 'data', so it is not a robomimic dataset; "
                f"at its top: {listing(self._file.keys())}"
            )
        self._data = data
        self.episode_names = sorted(
            (n for n in data if isinstance(data.get(n), h5py.Group)), key=episode_order
        )
        self.masks = read_masks(self._file)
        self.env_args, self._env_args_fault = parse_env_args(data.attrs.get("env_args"))

    def close(self) -> None:
        self._file.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        found: dict[str, ArrayInfo] = {}
        try:
            # Not visititems: it passes over soft and external links, which merged datasets are made of.
            groups: list[tuple[str, h5py.Group]] = [("", self._data[episode])]
            while groups:
                prefix, group = groups.pop()
                for key in group:
                    item = group.get(key)
                    if isinstance(item, h5py.Dataset):
                        found[prefix + key] = ArrayInfo(tuple(item.shape or ()), item.dtype)
                    elif isinstance(item, h5py.Group) and prefix.count("/") < DEEPEST:
                        groups.append((f"{prefix}{key}/", item))
        except HDF5_ERRORS as error:
            raise self._damaged(episode, "its contents", error) from error
        return found

    def info(self, episode: str, name: str) -> ArrayInfo:
        item = self._dataset(episode, name)
        return ArrayInfo(tuple(item.shape or ()), item.dtype)

    def read(self, episode: str, name: str) -> NDArray[Any]:
        item = self._dataset(episode, name)
        try:
            array: NDArray[Any] = np.asarray(item[()])
        except (*HDF5_ERRORS, MemoryError) as error:
            raise self._damaged(episode, f"'{name}'", error) from error
        return array

    def attributes(self, episode: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        attributes = self._data[episode].attrs
        for name in attributes:
            if name == "model_file":
                continue
            try:
                value = attributes[name]
            except HDF5_ERRORS as error:
                raise self._damaged(episode, f"the attribute '{name}'", error) from error
            plain = plain_value(value)
            if plain is not None:
                found[name] = plain
        return found

    def problems(self) -> list[Problem]:
        found: list[Problem] = []
        if self._env_args_fault:
            found.append(Problem("warning", self._env_args_fault))
        frames = 0
        for episode in self.episode_names:
            if episode_order(episode)[0]:
                found.append(
                    Problem("warning", "not called demo_<number>: robomimic skips or refuses it", episode)
                )
            actions = self._data[episode].get(ACTIONS)
            if not isinstance(actions, h5py.Dataset) or not actions.shape:
                continue
            length = int(actions.shape[0])
            frames += length
            said = self._data[episode].attrs.get("num_samples")
            if said is None:
                found.append(Problem("warning", "no attribute 'num_samples': robomimic needs it", episode))
            elif int(said) != length:
                text = f"attribute 'num_samples' is {int(said)} but there are {length} actions"
                found.append(Problem("error", text, episode))
        total = self._data.attrs.get("total")
        if total is not None and int(total) != frames:
            found.append(
                Problem("warning", f"attribute 'total' is {int(total)} but there are {frames} frames")
            )
        return found

    def _dataset(self, episode: str, name: str) -> h5py.Dataset:
        try:
            item = self._data[episode].get(name)
        except HDF5_ERRORS as error:
            raise self._damaged(episode, f"'{name}'", error) from error
        if not isinstance(item, h5py.Dataset):
            raise UserError(
                f"{self.path}, {episode}: no '{name}'; there are {listing(self.arrays(episode), 40)}"
            )
        return item

    def _damaged(self, episode: str, what: str, error: BaseException) -> UserError:
        reason = " ".join(str(error).split())
        return UserError(f"{self.path}, {episode}: {what} cannot be read, the file is damaged ({reason})")


def read_masks(file: h5py.File) -> dict[str, list[str]]:
    """The named subsets ``mask/<key>``."""
    group = file.get("mask")
    if not isinstance(group, h5py.Group):
        return {}
    masks = {}
    for key, item in group.items():
        if isinstance(item, h5py.Dataset):
            names = np.asarray(item[()]).reshape(-1).tolist()
            masks[key] = [n.decode() if isinstance(n, bytes) else str(n) for n in names]
    return masks


def parse_env_args(value: Any) -> tuple[dict[str, Any], str | None]:
    """The environment's description, and what is wrong with it."""
    if value is None:
        return {}, "no attribute 'env_args': the environment cannot be rebuilt from the file"
    try:
        env_args = json.loads(value)
    except (ValueError, TypeError) as error:
        return (
            {},
            f"attribute 'env_args' is not JSON ({error}): the environment cannot be rebuilt from the file",
        )
    if not isinstance(env_args, dict):
        return {}, f"attribute 'env_args' is JSON of type {type(env_args).__name__}, not an object"
    return env_args, None


def plain_value(value: Any) -> Any:
    """An attribute as int, float, bool, str or list; None when it is too large or of another kind."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value if len(value) <= LARGEST_ATTRIBUTE else None
    if isinstance(value, np.ndarray | np.generic):
        if value.nbytes > LARGEST_ATTRIBUTE or value.dtype.kind not in "biufSUO":
            return None
        plain = value.tolist()
        if value.dtype.kind in "SO":
            plain = json.loads(
                json.dumps(plain, default=lambda v: v.decode() if isinstance(v, bytes) else str(v))
            )
        return plain
    return value if isinstance(value, bool | int | float) else None
