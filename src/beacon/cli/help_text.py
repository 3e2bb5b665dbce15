"""Help that fits the terminal: tyro fits the options, and leaves the text above them as it is."""

from __future__ import annotations

import shutil
import textwrap
from typing import TextIO

BOX = "╭│╰"  # lines of a box are as wide as they have to be


class Fitted:
    """A stream whose long lines of plain text are broken between words.

    Args:
        stream: where the lines go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._columns = shutil.get_terminal_size().columns

    def write(self, text: str) -> int:
        """Write ``text``, its lines broken where they are longer than the terminal is wide."""
        fitted = [self._fit(line) for line in text.split("\n")]
        self._stream.write("\n".join(fitted))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal, which has colours."""
        return self._stream.isatty()

    def _fit(self, line: str) -> str:
        is_prose = line[:1].isalpha()  # examples are indented, and must stay one line to be copied
        if not is_prose or line.startswith("usage:") or any(letter in line for letter in BOX):
            return line
        return textwrap.fill(line, self._columns, break_long_words=False, break_on_hyphens=False)
