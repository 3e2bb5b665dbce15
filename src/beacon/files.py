"""Files that are either whole or absent: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beacon.errors import RunError

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


def sync(path: Path) -> None:
    """Ask the system to put a file, or a folder's list of names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path, keeps: str = "nothing was changed") -> Iterator[None]:
    """Turn a failure of the file system while ``path`` is written into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise RunError(f"cannot write {path}: {reason}; {keeps}") from error


@contextmanager
def as_part() -> Iterator[None]:
    """Let who writes the whole say what failed: the failure of a part becomes that of the system again."""
    try:
        yield
    except RunError as error:
        raise error.__cause__ or error from None


@contextmanager
def replacing(path: Path, keeps: str = "nothing was changed") -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and vanishes if not."""
    # Absolute, because libraries take a relative "scheme:name" for the address of another file system.
    temporary = path.absolute().with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    with writing(path, keeps):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path, ".tmp")
        try:
            yield temporary
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def remove_leftovers(path: Path, ending: str) -> None:
    """Remove what processes of this machine that were killed while they wrote ``path`` have left beside it.

    Args:
        path: a file or folder whose temporary name was ``.NAME.PID`` with something behind it.
        ending: of the temporary name.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{ending}"):
        process = left.name.removeprefix(f".{path.name}.").removesuffix(ending).partition("-")[0]
        if not process.isdecimal() or _is_alive(int(process)):
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    """Whether there is a process of that number; yes where one cannot ask without harm."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_bytes(path: Path, content: bytes, keeps: str = "nothing was changed") -> None:
    """Write a whole file atomically."""
    with replacing(path, keeps) as temporary:
        temporary.write_bytes(content)
