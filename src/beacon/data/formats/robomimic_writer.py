"""Writing robomimic HDF5, one demonstration at a time, so that nothing is lost when the writer is killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import Episode
from beacon.data.errors import listing, printable
from beacon.data.formats.base import DatasetWriter
from beacon.data.formats.hdf5_output import create_hdf5
from beacon.data.formats.robomimic_attributes import episode_order
from beacon.data.formats.write_lock import WriteLock
from beacon.errors import RunError, UserError
from beacon.files import replacing, sync, write_bytes, writing

_HEADER = "header.json"


class RobomimicWriter(DatasetWriter):
    """Collects demonstrations in ``PATH.partial/``, one small file each, and joins them when done.

    An HDF5 file that is being written when its process dies is often beyond repair. So each demonstration
    becomes a file of its own, complete or absent; leaving the ``with`` block well joins them into ``PATH``,
    which appears at once and whole. After a kill, ``resume=True`` goes on with what is there:

        with RobomimicWriter("stack.hdf5", env_args=env_args, resume=True) as writer:
            for i in range(200):
                if f"demo_{i}" not in writer.episode_names:
                    actions, images = roll_out(seed=i)
                    writer.add_episode(f"demo_{i}", actions, {"agentview_image": images})
    """

    def __init__(
        self,
        path: str | Path,
        *,
        env_args: Mapping[str, Any],
        attributes: Mapping[str, Any] | None = None,  # of the whole dataset; must be the same on resuming
        compression: int | None = 1,  # gzip level for images; None: stored as they are
        resume: bool = False,
        overwrite: bool = False,  # replace a finished file, and throw away an unfinished one
        resumable: bool = True,  # False: what a failed attempt leaves is thrown away
    ) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.masks: dict[str, list[str]] = {}
        self._compression, self._resumable = compression, resumable
        self._header = {"env_args": dict(env_args), "attributes": dict(attributes or {})}
        self._lock = WriteLock(self.path, self.partial)
        if self.path.exists() and not overwrite:
            raise UserError(f"{self.path} exists already; choose another name or allow overwriting it")
        if self.path.is_dir():
            raise UserError(f"{self.path} is a folder; name a file")
        try:
            self._open(resume, overwrite)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, resume: bool, overwrite: bool) -> None:
        header = self.partial / _HEADER
        with writing(self.path):
            self.partial.mkdir(parents=True, exist_ok=True)
            self._lock.take()
            if not self._finished():
                header.unlink(missing_ok=True)  # nothing was written, so nothing is bound to its settings
            elif self._resumable and not resume and not overwrite:
                raise UserError(
                    f"{self.path}: an unfinished file with {len(self._finished())} demonstrations is in "
                    f"{self.partial}; resume it, or delete that folder to start over"
                )
            for left in self.partial.iterdir():
                stale = left.name.startswith(".") or not resume
                if stale and left.name != "lock":
                    left.unlink()
        if header.exists():
            said = json.loads(header.read_text())
            if said != json.loads(json.dumps(self._header)):
                raise UserError(
                    f"{self.path} was begun with other settings (see {header}); "
                    f"use the same, or delete {self.partial}"
                )
        else:
            write_bytes(header, json.dumps(self._header, indent=2).encode())
        self._names = {name: None for name in self._finished()}

    @property
    def episode_names(self) -> list[str]:
        """The demonstrations that are safely on the disk, including those of earlier attempts."""
        return sorted(self._names, key=episode_order)

    def __len__(self) -> int:
        return len(self._names)

    def episode_attributes(self, name: str) -> dict[str, Any]:
        """The attributes that a demonstration was written with, for example its seed."""
        with h5py.File(self._file(name), "r") as file:
            return {key: v.item() if isinstance(v, np.generic) else v for key, v in file[name].attrs.items()}

    def add_episode(
        self,
        name: str | None,
        actions: NDArray[Any],
        obs: Mapping[str, NDArray[Any]],
        states: NDArray[Any] | None = None,
        rewards: NDArray[Any] | None = None,
        dones: NDArray[Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        extra: Mapping[str, NDArray[Any]] | None = None,
    ) -> str:
        """Write one demonstration; when this returns it survives a kill. Gives back its name."""
        return self.add(Episode(name, actions, obs, states, rewards, dones, attributes or {}, extra or {}))

    def add(self, episode: Episode) -> str:
        """Write one demonstration."""
        name = episode.name
        if name is None:
            name = f"demo_{1 + max((episode_order(n)[1] for n in self._names), default=-1)}"
        if episode_order(name)[0]:
            raise UserError(f"'{printable(name)}': demonstrations are called demo_<number>")
        if name in self._names:
            raise ValueError(f"{self.path}: '{name}' was written already")
        arrays = _arrays(name, episode)
        # Built in memory and written as bytes: HDF5 itself does not recover well from a full disk.
        # Under a name of its own: HDF5 knows files of the whole process by their names, also those in memory.
        with h5py.File(self._file(name), "w", driver="core", backing_store=False) as file:
            group = file.create_group(name)
            for key, array in arrays.items():
                group.create_dataset(key, data=array, **self._layout(array))
            for key, value in episode.attributes.items():
                group.attrs[key] = value
            group.attrs["num_samples"] = len(episode.actions)
            file.flush()
            image = file.id.get_file_image()
        keeps = self._keeps(f"the {len(self)} demonstrations before it are kept")
        write_bytes(self._file(name), image, keeps)
        self._names[name] = None
        return name

    def set_mask(self, key: str, names: Iterable[str]) -> None:
        """Name a subset of the demonstrations, such as ``train`` or ``valid``."""
        self.masks[key] = list(names)

    def finish(self) -> None:
        """Join the demonstrations into the final file."""
        names = self.episode_names
        if not names:
            raise RunError(f"{self.path}: no demonstration was added, so there is nothing to write")
        for key, chosen in self.masks.items():
            unknown = sorted(set(chosen) - set(names))
            if unknown:
                raise ValueError(f"mask '{key}' names {listing(unknown)}, not in the file")
        keeps = self._keeps(f"the demonstrations are kept in {self.partial}")
        with writing(self.path, keeps):
            need = sum(self._file(name).stat().st_size for name in names)
            if shutil.disk_usage(self.partial).free < need:
                raise RunError(f"cannot write {self.path}: {need >> 20} MiB do not fit on the disk; {keeps}")
            joined = self.partial / ".joined"
            with replacing(joined, keeps) as temporary:
                self._join(temporary, names)
            joined.replace(self.path)
            sync(self.path.parent)
            shutil.rmtree(self.partial)

    def _keeps(self, what: str) -> str:
        return f"{what}; make room and resume" if self._resumable else "nothing was changed"

    def _join(self, path: Path, names: Sequence[str]) -> None:
        with create_hdf5(path) as (file, disk):
            data = file.create_group("data")
            total = 0
            for name in names:
                with h5py.File(self._file(name), "r") as part:
                    part.copy(name, data)
                disk.check()
                total += int(data[name].attrs["num_samples"])
            for key, value in self._header["attributes"].items():
                data.attrs[key] = value
            data.attrs["env_args"] = json.dumps(self._header["env_args"])
            data.attrs["total"] = total
            write_masks(file, self.masks)

    def _layout(self, array: NDArray[Any]) -> dict[str, Any]:
        if array.ndim != 4 or array.dtype != np.uint8 or self._compression is None:
            return {}
        # One frame a chunk: training loops of other libraries read single frames.
        return {"compression": "gzip", "compression_opts": self._compression, "chunks": (1, *array.shape[1:])}

    def _finished(self) -> list[str]:
        return [file.stem for file in self.partial.glob("demo_*.hdf5")]

    def _file(self, name: str) -> Path:
        return self.partial / f"{name}.hdf5"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            if not self._resumable:
                shutil.rmtree(self.partial, ignore_errors=True)
            self._lock.release()


def write_robomimic(
    path: str | Path,
    episodes: Iterable[Episode],
    *,
    env_args: Mapping[str, Any],
    masks: Mapping[str, Sequence[str]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    compression: int | None = 1,
    overwrite: bool = False,
) -> None:
    """Write a dataset from demonstrations that come one at a time."""
    with RobomimicWriter(
        path, env_args=env_args, attributes=attributes, compression=compression, overwrite=overwrite
    ) as writer:
        for episode in episodes:
            writer.add(episode)
        for key, names in (masks or {}).items():
            writer.set_mask(key, names)


def write_masks(file: h5py.File, masks: Mapping[str, Sequence[str]]) -> None:
    """Store named subsets as robomimic does, as byte strings."""
    for key, names in masks.items():
        file.create_dataset(f"mask/{key}", data=np.array([n.encode() for n in names], dtype="S"))


def _arrays(name: str, episode: Episode) -> dict[str, NDArray[Any]]:
    """All arrays of a demonstration by their place in the file, checked to have one length."""
    arrays: dict[str, NDArray[Any]] = {"actions": np.asarray(episode.actions)}
    if arrays["actions"].ndim != 2 or len(arrays["actions"]) == 0:
        raise UserError(f"{name}: actions of shape {arrays['actions'].shape}, needed (T, A) with T > 0")
    arrays |= {f"obs/{key}": np.asarray(array) for key, array in episode.obs.items()}
    for key in ("states", "rewards", "dones"):
        array = getattr(episode, key)
        if array is not None:
            arrays[key] = np.asarray(array)
    length = len(arrays["actions"])
    for key, array in arrays.items():
        if array.ndim == 0 or len(array) != length:
            raise UserError(
                f"{name}: '{printable(key)}' has shape {array.shape}, but there are {length} actions"
            )
    # Extra arrays need not run over time: MimicGen's src_demo_inds has one entry a subtask.
    return arrays | {key: np.asarray(array) for key, array in episode.extra.items()}
