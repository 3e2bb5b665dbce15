"""Where the frames of a camera live: in memory, or in a file that is mapped into memory."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from beacon.files import sync, writing

Frames = NDArray[np.uint8]


def default_memory_limit() -> int:
    """Half of the memory that is free for this process, in bytes."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(lines.get("MemAvailable", f"{free // 1024} kB").split()[0]) * 1024
    group = Path("/sys/fs/cgroup")  # a container's own limit
    try:
        most, used = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        free = min(free, max(0, int(most) - int(used)))
    except (OSError, ValueError):
        pass  # no container, or one without a limit ("max")
    return free // 2


def default_cache_dir() -> Path:
    """Where mapped frames are kept from one run to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beacon" / "frames"


def cache_path(folder: Path, name: str, identity: list[Any], selection: dict[str, Any]) -> Path:
    """The mapped file for some frames of one version of a dataset.

    Args:
        folder: of the mapped files.
        name: of the dataset, for people who look into the folder.
        identity: what changes when the dataset does.
        selection: which of its frames, and in which size.
    """
    digest = hashlib.sha256(json.dumps([*identity, selection], sort_keys=True).encode()).hexdigest()[:20]
    return folder / f"{name[:100]}-{digest}.npy"


class FrameSink(ABC):
    """Takes the frames of one camera, in any order and from several threads; gives them as one array."""

    @abstractmethod
    def put(self, first: int, frames: Frames) -> None:
        """Store frames (T, H, W, C) at their place.

        Args:
            first: number of the first of them in the whole array.
            frames: the pictures.
        """

    @abstractmethod
    def finish(self) -> Frames:
        """All frames (F, H, W, C)."""

    def abandon(self) -> None:
        """Loading failed: leave nothing behind."""
        return


class MemorySink(FrameSink):
    """One array in memory, filled in place."""

    def __init__(self, shape: tuple[int, int, int, int]) -> None:
        self._frames: Frames = np.empty(shape, np.uint8)

    def put(self, first: int, frames: Frames) -> None:
        self._frames[first : first + len(frames)] = frames

    def finish(self) -> Frames:
        return self._frames


class MappedSink(FrameSink):
    """An .npy file, written piece by piece, then renamed into its place and mapped read-only."""

    def __init__(self, path: Path, shape: tuple[int, int, int, int]) -> None:
        self._path = path
        self._host_prefix = f".{path.name}.{socket.gethostname()}-"
        self._temporary = path.with_name(f"{self._host_prefix}{os.getpid()}.tmp")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_orphans()
            # Written, not mapped for writing: a full disk is then an error and not a dead process.
            self._file: IO[bytes] = self._temporary.open("wb")
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(self._file, header)  # type: ignore[no-untyped-call]
            self._file.flush()
            self._begin = self._file.tell()
            self._frame_bytes = shape[1] * shape[2] * shape[3]

    def put(self, first: int, frames: Frames) -> None:
        with writing(self._path):
            # To its place and not to the file's position, which all threads share.
            rest, offset = np.ascontiguousarray(frames).reshape(-1).data, first * self._frame_bytes
            while rest:
                written = os.pwrite(self._file.fileno(), rest, self._begin + offset)
                rest, offset = rest[written:], offset + written

    def finish(self) -> Frames:
        with writing(self._path):
            self._file.close()
            sync(self._temporary)
            self._temporary.replace(self._path)
            sync(self._path.parent)
        return map_frames(self._path)

    def abandon(self) -> None:
        self._temporary.unlink(missing_ok=True)
        with writing(self._path):
            self._file.close()

    def _remove_orphans(self) -> None:
        for orphan in self._path.parent.glob(f"{self._host_prefix}*.tmp"):
            process = orphan.name.removeprefix(self._host_prefix).removesuffix(".tmp")
            if process.isdigit() and not Path(f"/proc/{process}").exists() and Path("/proc").exists():
                orphan.unlink(missing_ok=True)


def map_frames(path: Path) -> Frames:
    """A finished .npy file as a read-only array that the system pages in as needed."""
    frames: Frames = np.load(path, mmap_mode="r", allow_pickle=False)
    return frames


def find_mapped(path: Path, shape: tuple[int, int, int, int]) -> Frames | None:
    """The mapped frames of an earlier run, when they are there and whole."""
    try:
        frames = map_frames(path)
    except (OSError, ValueError):  # absent, or not written by us
        return None
    return frames if frames.shape == shape and frames.dtype == np.uint8 else None
