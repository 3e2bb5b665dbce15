"""One writer at a time: a lock in the folder where an unfinished dataset is gathered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from beacon.errors import UserError

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system: two writers of one file are then not noticed
    fcntl = None  # type: ignore[assignment]

NAME = "lock"


class WriteLock:
    """Held by the process that writes; the system releases it when the process ends, however it ends.

    Args:
        path: of the dataset, for the message.
        folder: where the unfinished dataset is.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._folder = path, folder
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Take it, or say in one line that somebody else has it."""
        # No link, and no truncation: opening for writing would empty whatever a link points to.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(self._folder / NAME, flags, 0o644), "r+")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self._path} is being written by another process") from None

    def release(self) -> None:
        """Let go of it."""
        if self._file is not None:
            self._file.close()
