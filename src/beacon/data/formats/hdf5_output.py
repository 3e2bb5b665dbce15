"""Creating an HDF5 file on a disk that may fill up meanwhile."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py


class CarefulFile(io.RawIOBase):
    """A file that HDF5 can always write to.

    When the disk refuses a write, HDF5 2.0 ends the whole process: it aborts while cleaning up.
    So a refused write is kept in memory instead, where reads find it again, and ``error`` says what happened.
    Whoever fills the file asks for it between steps, so that little gathers in memory.
    """

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self._file = path.open("w+b", buffering=0)
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []  # what the disk refused, in the order of writing

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            self._position = offset
        elif whence == io.SEEK_CUR:
            self._position += offset
        else:
            end = max((start + len(kept) for start, kept in self._kept), default=0)
            self._position = max(self._file.seek(0, io.SEEK_END), end) + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        content = memoryview(data).cast("B")
        done = 0
        while self.error is None and done < len(content):
            try:
                self._file.seek(self._position + done)
                done += self._file.write(content[done:]) or 0
            except OSError as error:
                self.error = error
        if done < len(content):
            self._kept.append((self._position + done, bytes(content[done:])))
        self._position += len(content)
        return len(content)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        self._file.seek(self._position)
        got = self._file.readinto(view) or 0
        view[got:] = bytes(len(view) - got)
        for start, kept in self._kept:
            low, high = max(start, self._position), min(start + len(kept), self._position + len(view))
            if low < high:
                view[low - self._position : high - self._position] = kept[low - start : high - start]
        self._position += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self._position if size is None else size
        if self.error is None:
            try:
                self._file.truncate(size)
            except OSError as error:
                self.error = error
        return size

    def close(self) -> None:
        self._file.close()
        super().close()

    def check(self) -> None:
        """Raise what the disk said."""
        if self.error is not None:
            raise self.error


@contextmanager
def create_hdf5(path: Path) -> Iterator[tuple[h5py.File, CarefulFile]]:
    """A new HDF5 file and the file under it; raises OSError at the end when the disk refused anything."""
    with CarefulFile(path) as careful:
        with h5py.File(careful, "w") as file:
            yield file, careful
        careful.check()
