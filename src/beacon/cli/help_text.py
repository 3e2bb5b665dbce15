"""Help that fits the terminal: tyro fits the options, and leaves the text above them as it is."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any, TextIO


class Fitted:
    """A stream whose long lines of prose are broken between words; all else is as in the stream.

    Args:
        stream: where the lines go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._columns = shutil.get_terminal_size().columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write ``text``, its prose broken where it is longer than the terminal is wide."""
        self._stream.write("\n".join(self._fit(line) for line in text.split("\n")))
        return len(text)

    def _fit(self, line: str) -> str:
        # Examples are indented, and stay one line to be copied; boxes begin with their border.
        if not line[:1].isalpha() or line.startswith("usage:"):
            return line
        return textwrap.fill(line, self._columns, break_long_words=False, break_on_hyphens=False)
