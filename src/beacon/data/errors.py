"""Warnings and wordings that the readers share."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


class DataWarning(UserWarning):
    """Training can go on, but something in the demonstrations is probably not as intended."""


def listing(names: Iterable[str], most: int = 12) -> str:
    """``a, b, c``, cut short with a count when there are many, ``none`` when there are none."""
    known = list(names)
    if not known:
        return "none"
    shown = ", ".join(map(printable, known[:most]))
    return shown if len(known) <= most else f"{shown} and {len(known) - most} more"


def printable(text: str) -> str:
    r"""The text without what a terminal would obey: escape sequences, other controls, broken characters.

    Names come from files that others made. Line breaks stay, because help and tables need them.

    >>> printable("demo" + chr(27) + "[31m")
    'demo\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
