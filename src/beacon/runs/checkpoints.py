"""checkpoints/: step folders that appear whole or not at all, and ``last``, which names the newest.

What is inside of a step folder is for those who write it: `beacon.policy` and `beacon.training`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beacon.errors import UserError
from beacon.files import sync, write_bytes, writing
from beacon.runs.checksums import write_checksums
from beacon.runs.layout import CHECKPOINTS, DESCRIPTION, LAST, step_name
from beacon.runs.reading import damaged, read_bytes

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")  # of a step folder: no path that leads elsewhere
LARGEST_NAME = 255


class Checkpoints:
    """The folder ``checkpoints/`` of a run.

    Args:
        folder: need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def any(self) -> bool:
        """Whether there is anything to resume from."""
        return (self.folder / LAST).exists()

    @property
    def last(self) -> int | None:
        """Step of the newest checkpoint; None before the first."""
        file = self.folder / LAST
        name = _target(file)
        if name is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", name):
            raise damaged(file, f"{name!r} is not a step")
        return int(name)

    def steps(self) -> dict[int, Path]:
        """All step folders by step, the oldest first."""
        if not self.folder.is_dir():
            return {}
        names = [path.name for path in self.folder.iterdir() if re.fullmatch(r"[0-9]{1,18}", path.name)]
        return {int(name): self.folder / name for name in sorted(names, key=int)}

    def before(self, folder: Path) -> Path | None:
        """The checkpoint before this one; None where there is none.

        Args:
            folder: a step folder.
        """
        earlier = [path for path in self.steps().values() if path.name < folder.name]
        return earlier[-1] if earlier else None

    @contextmanager
    def saving(self, step: int, keep: int) -> Iterator[Path]:
        """A folder to fill; it becomes the newest checkpoint when the block ends well, and vanishes if not.

        Args:
            step: gradient steps done.
            keep: checkpoints to keep, the newest ones.
        """
        final = self.folder / step_name(step)
        temporary = self.folder / f".{final.name}.partial"
        keeps = "the previous checkpoint is intact" if self.any else "there is no checkpoint yet"
        with writing(final, keeps):
            for left in self.folder.glob(".*.partial"):  # of a run that was cut off while saving
                shutil.rmtree(left, ignore_errors=True)
            shutil.rmtree(final, ignore_errors=True)  # of one that was cut off before it could name it last
            try:
                temporary.mkdir(parents=True)
                yield temporary
                write_checksums(temporary)
                for file in temporary.iterdir():
                    sync(file)
                temporary.rename(final)
                sync(self.folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        write_bytes(self.folder / LAST, f"{final.name}\n".encode(), keeps)
        self.prune(keep)

    def prune(self, keep: int) -> None:
        """Remove all but the newest ``keep`` of the checkpoints up to the last.

        Args:
            keep: at least 1.
        """
        last = self.last
        if last is None:
            return
        done = [path for step, path in self.steps().items() if step <= last]
        for old in done[:-keep]:
            shutil.rmtree(old, ignore_errors=True)


def find_checkpoint(path: str | Path) -> Path:
    """The folder that holds ``policy.json``: ``path`` itself, or what ``path/checkpoints/last`` points to.

    ``last`` is a symbolic link to a step folder, or a text file with its name.

    Args:
        path: a run folder, its folder of checkpoints, or a checkpoint.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: there is no such folder")
    if (path / DESCRIPTION).is_file():
        return path
    for parent in (path / CHECKPOINTS, path):
        last = parent / LAST
        name = _target(last)
        if name is None:
            continue
        folder = last if last.is_symlink() or last.is_dir() else parent / name
        if not (folder / DESCRIPTION).is_file():
            raise UserError(f"{last}: points to {folder.resolve().name}, where there is no {DESCRIPTION}")
        return folder
    raise UserError(f"{path}: neither a checkpoint ({DESCRIPTION}) nor a run with checkpoints/last")


def _target(last: Path) -> str | None:
    """The name of the folder that ``last`` points to; None where there is no ``last``."""
    if last.is_symlink() or last.is_dir():
        return last.resolve().name
    try:
        content = read_bytes(last, LARGEST_NAME)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    try:
        name = content.decode().strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{last}: damaged, not readable as text ({error})") from None
    if not NAME.fullmatch(name):
        raise damaged(last, f"{name!r} is not the name of a checkpoint")
    return name
