"""The methods by name, and how others join them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TypeVar

from beacon.methods.base import Method

GROUP = "beacon.methods"

Kind = TypeVar("Kind", bound=type[Method])

METHODS: dict[str, type[Method]] = {}


def register(name: str) -> Callable[[Kind], Kind]:
    """Make a method known under ``name``: as a decorator of its class.

    A package that is installed beside beacon is found without being imported by anyone when its
    pyproject.toml says::

        [project.entry-points."beacon.methods"]
        my-method = "my_package.my_module:MyMethod"
    """

    def remember(kind: Kind) -> Kind:
        known = METHODS.get(name)
        if known is not None and known is not kind:
            raise ValueError(f"there is a method '{name}' already: {known.__module__}.{known.__qualname__}")
        METHODS[name] = kind
        return kind

    return remember


def find_installed() -> None:
    """Register the methods of other installed packages; one that cannot be loaded is said aloud."""
    for entry in entry_points(group=GROUP):
        try:
            register(entry.name)(entry.load())
        except Exception as error:  # another package's fault must not keep anyone from training
            warnings.warn(f"the method '{entry.name}' ({entry.value}) is left out: {error}", stacklevel=2)
