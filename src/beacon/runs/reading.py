"""Small files of a run, read with limits: damage is one line that names the file."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from beacon.errors import UserError

LARGEST_CONFIG = 2**20  # bytes
LARGEST_JSON = 2**28


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few hundred bytes of them can stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed")
        return super().compose_node(parent, index)


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


def read_yaml(file: Path, largest: int = LARGEST_CONFIG) -> dict[str, Any]:
    """The mapping that a YAML file holds."""
    content = read_bytes(file, largest)
    try:
        values = yaml.load(content, _PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise damaged(file, error) from None
    if not isinstance(values, Mapping):
        raise UserError(f"{file}: damaged, not a configuration")
    return dict(values)
