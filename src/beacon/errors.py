"""Errors that are meant for the person at the keyboard: one line each, no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """The input is wrong. The message says what, where and what to do; the command line exits with 2."""


class RunError(RuntimeError):
    """The input is fine but the work could not be done, for example on a full disk; exit code 1."""


def meant(name: str, known: Iterable[str]) -> str:
    """``did you mean beacon? `` where a known name is near to what was said; empty where none is.

    Args:
        name: what the user wrote.
        known: the names that there are.
    """
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}? " if near else ""
