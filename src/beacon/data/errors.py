"""Warnings and wordings that the readers share."""

from __future__ import annotations

from collections.abc import Iterable


class DataWarning(UserWarning):
    """Training can go on, but something in the demonstrations is probably not as intended."""


def listing(names: Iterable[str], most: int = 12) -> str:
    """``a, b, c``, cut short with a count when there are many, ``none`` when there are none."""
    known = list(names)
    if not known:
        return "none"
    shown = ", ".join(known[:most])
    return shown if len(known) <= most else f"{shown} and {len(known) - most} more"
