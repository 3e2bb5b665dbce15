"""YAML that may come from anywhere: read with limits on size and depth, and without aliases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from beacon.errors import UserError

LARGEST_BYTES = 200_000  # a configuration has a few thousand
LARGEST_DEPTH = 32


def read_yaml(file: Path) -> Any:
    """The plain values in a file; what is wrong with it is one line.

    Args:
        file: a YAML file. One that is too large or too deep, or that has aliases (with which a few lines
            stand for billions of values), is refused before anything is built from it.
    """
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            raise UserError(f"{file}: damaged (not a file)")
        with file.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from None
    if len(content) > LARGEST_BYTES:
        raise UserError(f"{file}: damaged (larger than {LARGEST_BYTES // 1000} kB, not a configuration)")
    try:
        return yaml.load(content.decode(), Loader=_LimitedLoader)
    except UnicodeDecodeError:
        raise UserError(f"{file}: damaged, not UTF-8 text") from None
    # Texts that look like numbers or dates, and are none, come as ValueError or OverflowError.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: damaged ({reason[:200]})") from None


class _LimitedLoader(yaml.SafeLoader):
    """Plain values only, no aliases, limited depth."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        self._depth += 1
        if self._depth > LARGEST_DEPTH:
            raise yaml.YAMLError("nested too deeply")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node
