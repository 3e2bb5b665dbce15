"""Files of a dataset that is a folder: named by templates that others wrote, never outside of the folder."""

from __future__ import annotations

import re
from pathlib import Path

from beacon.data.errors import printable
from beacon.errors import UserError

_FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")
_LFS = b"version https://git-lfs"


def expand(template: str, values: dict[str, int | str]) -> str:
    """``chunk-{chunk_index:03d}`` with the values put in.

    Only plain fields and zero-padded numbers: the template is from a file, and ``str.format`` could do more.
    """

    def fill(match: re.Match[str]) -> str:
        name, width = match[1], match[2]
        if name not in values:
            raise UserError(f"'{printable(template)}': there is no {{{printable(name)}}}")
        value = values[name]
        return f"{value:0{int(width or 0)}d}" if isinstance(value, int) else value

    text = _FIELD.sub(fill, template)
    if "{" in text or "}" in text or "\0" in text:
        raise UserError(f"'{printable(template)}' is not a template of file names")
    return text


def inside(root: Path, relative: str) -> Path:
    """The file below ``root``; refused where the name, or a link in it, leads out of the folder.

    Links into the ``blobs`` of the Hugging Face cache are allowed, because its snapshots are made of them.
    """
    path = root / relative
    if Path(relative).is_absolute() or ".." in Path(relative).parts:
        raise UserError(f"{root}: '{printable(relative)}' leads out of the folder, and is not read")
    try:
        real, home = path.resolve(), root.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{root}: '{printable(relative)}' cannot be followed ({error})") from None
    allowed = [home]
    if home.parent.name == "snapshots":
        allowed.append(home.parent.parent / "blobs")
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise UserError(f"{root}: '{printable(relative)}' is a link out of the folder, and is not read")
    return path


def file_fault(path: Path) -> str | None:
    """Why a file cannot hold data: it is missing, empty, or stands for one that was not downloaded."""
    try:
        if not path.is_file():
            return "is missing" if not path.exists() else "is not a file"
        size = path.stat().st_size
        if size == 0:
            return "is empty"
        if size < 1024:
            with path.open("rb") as file:
                if file.read(len(_LFS)) == _LFS:
                    return (
                        "is a Git LFS pointer and not the file itself; run 'git lfs pull' in the repository"
                    )
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
