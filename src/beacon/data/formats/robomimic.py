"""Reading robomimic HDF5: what robosuite, robomimic and MimicGen write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing, printable
from beacon.data.formats import hdf5_safety as safety
from beacon.data.formats.base import (
    ACTIONS,
    ArrayInfo,
    DatasetReader,
    DatasetWriter,
    Format,
    Problem,
    ReadOptions,
    WriteOptions,
)
from beacon.data.formats.robomimic_attributes import (
    ACTION_NAMES,
    check_count,
    control_rate,
    episode_order,
    parse_env_args,
    plain_value,
    read_action_names,
    read_masks,
    short_text,
    text_keys,
)
from beacon.data.formats.robosuite_actions import robosuite_action_names
from beacon.errors import UserError

# HDF5 reports damage through whichever exception the failing call happens to map to.
HDF5_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError)
DEEPEST = 4  # groups inside a demonstration
SUFFIXES = (".hdf5", ".h5")


def probe(path: Path) -> bool:
    """By name, or by the file's first bytes."""
    return path.is_file() and (path.suffix in SUFFIXES or bool(h5py.is_hdf5(path)))


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading, or say in one line why not."""
    try:
        return h5py.File(path, "r")
    except HDF5_ERRORS as error:
        text = " ".join(str(error).split())
        if "truncated" in text or path.stat().st_size == 0:
            raise UserError(f"{path} is truncated; copy, download or generate it again") from error
        if "signature not found" in text:
            raise UserError(f"{path} is not an HDF5 file") from error
        if "unable to lock" in text:
            raise UserError(f"{path} is being written by another process; wait until it is done") from error
        raise UserError(f"{path} cannot be opened: {printable(text)}") from error


def open_reader(path: Path, options: ReadOptions | None = None) -> RobomimicReader:
    """Open a robomimic dataset."""
    return RobomimicReader(path)


def create_writer(path: Path, options: WriteOptions) -> DatasetWriter:
    """Begin a robomimic dataset."""
    from beacon.data.formats.robomimic_writer import RobomimicWriter

    env_args = dict(options.env_args or {})
    if options.fps is not None:
        kwargs = env_args.get("env_kwargs")
        env_args["env_kwargs"] = (kwargs if isinstance(kwargs, dict) else {}) | {
            "control_freq": _whole(options.fps)
        }
    attributes = dict(options.attributes or {})
    if options.action_names:
        attributes[ACTION_NAMES] = json.dumps(options.action_names)
    return RobomimicWriter(
        path, env_args=env_args, attributes=attributes, overwrite=options.overwrite, resumable=False
    )


FORMAT = Format(
    "robomimic HDF5 (.hdf5, .h5)", probe, open_reader, lambda path: path.suffix in SUFFIXES, create_writer
)


class RobomimicReader(DatasetReader):
    """``data/demo_<i>`` with ``actions`` and ``obs/<key>``; everything else is optional."""

    format_name = "robomimic HDF5"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_hdf5(path)
        try:
            with self._naming(None):
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        data = safety.follow(self._file, "data")
        if not isinstance(data, h5py.Group):
            raise UserError(
                f"{self.path} has no group 'data', so it is not a robomimic dataset; "
                f"at its top: {listing(map(str, self._file.keys()))}"
            )
        self._data = data
        names = sorted(text_keys(data), key=episode_order)
        self.episode_names = [n for n in names if isinstance(self._follow(data, n), h5py.Group)]
        self._known = frozenset(self.episode_names)
        # What was asked for last, because more is asked of it next.
        self._last_group: tuple[str, h5py.Group] | None = None
        self._last_array: tuple[str, str, h5py.Dataset] | None = None
        self.masks = read_masks(self._file)
        self.env_args, self._env_args_fault = parse_env_args(safety.attribute(data, "env_args"))
        self.fps = control_rate(self.env_args)

    def close(self) -> None:
        self._file.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        arrays: dict[str, ArrayInfo] = {}
        with self._naming(episode, "its contents"):
            group = self._group(episode)
            # Hard links can make a circle, or a tree without end: every group is looked into once.
            seen = {safety.address(group)}
            groups: list[tuple[str, h5py.Group]] = [("", group)]
            while groups:
                prefix, group = groups.pop()
                for key in text_keys(group):
                    item = safety.follow(group, key)
                    if isinstance(item, h5py.Dataset):
                        arrays[prefix + key] = ArrayInfo(tuple(item.shape or ()), item.dtype)
                    elif isinstance(item, h5py.Group) and prefix.count("/") < DEEPEST:
                        address = safety.address(item)
                        if address not in seen:
                            seen.add(address)
                            groups.append((f"{prefix}{key}/", item))
        return arrays

    def info(self, episode: str, name: str) -> ArrayInfo:
        with self._naming(episode, f"'{name}'"):
            item = self._dataset(episode, name)  # whoever asks is about to make room for it
            return ArrayInfo(tuple(item.shape or ()), item.dtype)

    def read(self, episode: str, name: str) -> NDArray[Any]:
        with self._naming(episode, f"'{name}'"):
            return np.asarray(self._dataset(episode, name)[()])

    def length(self, episode: str) -> int:
        with self._naming(episode, f"'{ACTIONS}'"):
            item = safety.follow(self._group(episode), ACTIONS)
            shape = item.shape if isinstance(item, h5py.Dataset) else None
        return int(shape[0]) if shape else 0

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        with self._naming(episode, f"'{name}'"):
            return np.asarray(self._dataset(episode, name)[start:stop])

    def attributes(self, episode: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        with self._naming(episode, "its attributes"):
            group = self._group(episode)
            for name in group.attrs:
                if name == "model_file":
                    continue
                value = plain_value(safety.attribute(group, name))
                if value is not None:
                    attributes[name] = value
        return attributes

    def dimension_names(self, name: str) -> list[str] | None:
        if name != ACTIONS or not self.episode_names:
            return None
        shape = self.info(self.episode_names[0], ACTIONS).shape
        if len(shape) != 2:
            return None
        with self._naming(None, f"attribute '{ACTION_NAMES}'"):
            noted = read_action_names(safety.attribute(self._data, ACTION_NAMES), shape[1])
        return noted or robosuite_action_names(self.env_args, shape[1])

    def problems(self) -> list[Problem]:
        problems: list[Problem] = []
        if self._env_args_fault:
            problems.append(Problem("warning", self._env_args_fault))
        frames = 0
        for episode in self.episode_names:
            if episode_order(episode)[0]:
                problems.append(
                    Problem("warning", "not called demo_<number>: robomimic skips or refuses it", episode)
                )
            try:
                actions = self.arrays(episode).get(ACTIONS)
                said = plain_value(safety.attribute(self._group(episode), "num_samples"))
            except (UserError, *HDF5_ERRORS):
                continue  # said where its arrays are looked at
            if actions is None or not actions.shape:
                continue
            frames += actions.shape[0]
            problems += check_count(said, actions.shape[0], episode)
        try:
            total = plain_value(safety.attribute(self._data, "total"))
        except HDF5_ERRORS as error:
            reason = printable(" ".join(str(error).split()))
            return [
                *problems,
                Problem("error", f"attribute 'total' cannot be read, the file is damaged ({reason})"),
            ]
        if total is not None and not isinstance(total, int):
            problems.append(
                Problem("warning", f"attribute 'total' is not a whole number but {short_text(total)}")
            )
        elif total is not None and total != frames:
            problems.append(Problem("warning", f"attribute 'total' is {total} but there are {frames} frames"))
        return problems

    def _group(self, episode: str) -> h5py.Group:
        if self._last_group is not None and self._last_group[0] == episode:
            return self._last_group[1]
        group = safety.follow(self._data, episode) if episode in self._known else None
        if not isinstance(group, h5py.Group):
            raise UserError(f"{self.path} has no demonstration '{printable(episode)}'")
        self._last_group = (episode, group)
        return group

    def _dataset(self, episode: str, name: str) -> h5py.Dataset:
        """An array that declares no more than the file holds."""
        if self._last_array is not None and self._last_array[:2] == (episode, name):
            return self._last_array[2]
        item = safety.follow(self._group(episode), name)
        if not isinstance(item, h5py.Dataset):
            raise UserError(f"no '{printable(name)}'; there are {listing(self.arrays(episode), 40)}")
        safety.check_size(item, name)
        self._last_array = (episode, name, item)
        return item

    def _follow(self, group: h5py.Group, name: str) -> Any:
        try:
            return safety.follow(group, name)
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None

    @contextmanager
    def _naming(self, episode: str | None, what: str | None = None) -> Iterator[None]:
        """Every failure inside becomes one line that names file, demonstration and key."""
        where = str(self.path) if episode is None else f"{self.path}, {printable(episode)}"
        try:
            yield
        except UserError as error:
            text = str(error)
            raise UserError(text if text.startswith(str(self.path)) else f"{where}: {text}") from None
        except (*HDF5_ERRORS, MemoryError) as error:
            reason = printable(" ".join(str(error).split()))
            if what is None:
                raise UserError(f"{where} is damaged: {reason}") from error
            raise UserError(
                f"{where}: {printable(what)} cannot be read, the file is damaged ({reason})"
            ) from error


def _whole(rate: float) -> float | int:
    return int(rate) if float(rate).is_integer() else rate
