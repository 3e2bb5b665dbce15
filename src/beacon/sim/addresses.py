"""``module:attribute`` on a command line: parts of a user's own, also from a module in the current folder."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from beacon.errors import UserError


def load_attribute(address: str, what: str) -> Any:
    """What is at ``module:attribute``.

    Args:
        address: a module, which may lie in the current folder, and the name of one of its attributes.
        what: what it is to be, for messages, such as "the task".
    """
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise UserError(f"{what} '{address}' is not of the form module:name")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it hides nothing; worker processes inherit it
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError, ValueError) as error:
        raise UserError(f"cannot load {what} '{address}': {error}") from error
