"""One process at a time in a run folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beacon.errors import UserError
from beacon.files import writing

try:
    import fcntl
except ImportError:  # Windows: nobody is kept from resuming a run that is still going
    fcntl = None  # type: ignore[assignment]


@contextmanager
def exclusive(file: Path, busy: str) -> Iterator[None]:
    """Hold ``file`` while the block runs; a process that dies lets go by itself.

    The file is never written to and links are not followed, so that no other file can be harmed through it.

    Args:
        file: made if need be, with its folder.
        busy: message of the UserError when another process holds it.
    """
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UserError(f"{file}: is a symbolic link, not a lock; remove it") from None
            raise
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(busy) from None
        yield
    finally:
        os.close(descriptor)
