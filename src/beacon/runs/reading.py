"""Small files of a run, read with limits: damage is one line that names the file."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beacon import yaml_files
from beacon.errors import UserError

LARGEST_JSON = 2**28  # bytes


def damaged(file: Path, why: object) -> UserError:
    """The line for a file that cannot be used.

    Args:
        file: which.
        why: an error or a few words.
    """
    text = repr(why) if isinstance(why, KeyError) else " ".join(str(why).split()) or type(why).__name__
    return UserError(f"{file}: damaged ({text})")


def read_bytes(file: Path, largest: int) -> bytes:
    """The content of a regular file of at most ``largest`` bytes; FileNotFoundError where there is none.

    Args:
        file: which.
        largest: bytes that such a file can have.
    """
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            raise damaged(file, "not a file")
        if about.st_size > largest:
            raise damaged(file, f"larger than {largest:,} bytes")
        return file.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(file, error.strerror or error) from None


def read_json(file: Path, largest: int = LARGEST_JSON) -> Any:
    """Plain values of a JSON file."""
    try:
        return json.loads(read_bytes(file, largest))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise damaged(file, error) from None


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds; FileNotFoundError where there is none."""
    if not file.exists():
        raise FileNotFoundError(file)
    values = yaml_files.read_yaml(file)
    if not isinstance(values, Mapping):
        raise UserError(f"{file}: damaged, not a configuration")
    return dict(values)
