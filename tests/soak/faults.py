"""A failing file layer: the n-th write, fsync, rename or creation of a file fails, in any library."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.files import replacing

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = SOURCE.parents[2] / "build" / "soak" / "faults.so"
KINDS = ("write", "fsync", "rename", "create")
ERRORS = {
    "full disk": errno.ENOSPC,
    "input/output error": errno.EIO,
    "quota": errno.EDQUOT,
    "read-only": errno.EROFS,
    "permission": errno.EACCES,
}


@dataclass(frozen=True)
class Fault:
    """Which call fails, and how.

    Args:
        kind: of the call, one of `KINDS`.
        number: of the call among its kind, from 1; 0 fails none and counts all.
        error: a name of `ERRORS`.
        forever: all calls of the kind after it fail, too.
    """

    kind: str
    number: int
    error: str = "full disk"
    forever: bool = False

    def __str__(self) -> str:
        after = " and all after it" if self.forever else ""
        return f"{self.kind} {self.number}{after}: {self.error}"


def install() -> None:
    """Compile the layer, and let the processes to come have it. It does nothing until it is armed."""
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        with replacing(LIBRARY) as temporary:
            command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(temporary), str(SOURCE), "-ldl"]
            try:
                subprocess.run(command, check=True, capture_output=True)
            except FileNotFoundError:
                raise UserError(
                    "there is no C compiler (cc); Debian: apt-get install gcc libc6-dev"
                ) from None
    os.environ["LD_PRELOAD"] = str(LIBRARY)


def run_with_fault(fault: Fault, folder: Path, counts: Path, work: Callable[[Path], int]) -> int:
    """Do some work in this process with a fault in it, and write how many calls of each kind there were.

    Args:
        fault: what fails.
        folder: only files below it count.
        counts: a file elsewhere for the numbers.
        work: what is done.
    """
    layer: Any = ctypes.CDLL(None)
    layer.soak_seen.restype = ctypes.c_long
    prefix = os.fsencode(folder.resolve()) + b"/"
    layer.soak_arm(
        prefix,
        KINDS.index(fault.kind),
        ctypes.c_long(fault.number),
        ERRORS[fault.error],
        int(fault.forever),
    )
    try:
        return work(folder)
    finally:
        numbers = [str(layer.soak_seen(kind)) for kind in range(len(KINDS))]
        layer.soak_arm(b"", -1, ctypes.c_long(0), 0, 0)
        counts.write_text(" ".join(numbers))
