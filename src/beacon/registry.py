"""`Registry`: parts by name, one registry for every kind of part: methods, formats, tasks, checks, ..."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from beacon.errors import UserError, meant

Part = TypeVar("Part")


class Registry(Mapping[str, Part], Generic[Part]):
    """Name → part. Built-in parts are registered by a decorator, or by their address and loaded on first use.

    A package that is installed beside beacon is found when its pyproject.toml names the registry's group::

        [project.entry-points."beacon.methods"]
        my-method = "my_package.my_module:MyMethod"

    Args:
        what: what one part is called in messages, such as "method".
        group: entry points of this group join the registry; None: other packages cannot join.
        home: module that registers the built-in parts when it is imported, so that whoever asks finds them.
    """

    def __init__(self, what: str, group: str | None = None, home: str | None = None) -> None:
        self.what, self.group, self._home = what, group, home
        self._parts: dict[str, Part] = {}
        self._addresses: dict[str, str] = {}
        self._searched = False

    def register(self, name: str) -> Callable[[Part], Part]:
        """Make a part known under ``name``: as a decorator, or called with the part."""

        def remember(part: Part) -> Part:
            known = self._parts.get(name)
            if known is not None and known is not part:
                raise ValueError(f"there is a {self.what} '{name}' already: {_address(known)}")
            self._parts[name] = part
            return part

        return remember

    def register_lazily(self, name: str, address: str) -> None:
        """Make the part at ``module:attribute`` known without importing it."""
        self._addresses[name] = address

    def find(self, name: str, option: str | None = None) -> Part:
        """The part of that name; one line about the nearest names where there is none.

        Args:
            name: what the user wrote.
            option: the command-line option that said it, such as ``--method``.
        """
        try:
            return self[name]
        except KeyError:
            prefix = f"{option} {said(name)}: " if option else ""
            raise UserError(
                f"{prefix}there is no {self.what} '{said(name)}'; {meant(name, self)}choose one of "
                f"{', '.join(self)}"
            ) from None

    def name_of(self, part: Part) -> str:
        """The name that a part has, by identity."""
        for name in self:
            if self[name] is part:
                return name
        raise KeyError(_address(part))

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts and name not in self._addresses:
            self._search()  # only now: who asks for a built-in part need not wait for other packages
        if name not in self._parts and name in self._addresses:
            module, _, attribute = self._addresses[name].partition(":")
            self._parts[name] = getattr(import_module(module), attribute)
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a part of this name; it is not imported for that."""
        self._search()
        return name in self._parts or name in self._addresses

    def __iter__(self) -> Iterator[str]:
        self._search()
        return iter(dict.fromkeys([*self._addresses, *self._parts]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _search(self) -> None:
        """Import the home of the built-in parts, and find those of other packages; once."""
        if self._searched:
            return
        self._searched = True
        if self._home is not None:
            import_module(self._home)
        if self.group is None:
            return
        for entry in entry_points(group=self.group):
            try:
                if entry.name in self._addresses:
                    raise ValueError(
                        f"there is a {self.what} '{entry.name}' already: {self._addresses[entry.name]}"
                    )
                self.register(entry.name)(entry.load())
            except Exception as error:  # another package's fault must not keep anyone from working
                warnings.warn(
                    f"the {self.what} '{entry.name}' ({entry.value}) is left out: {error}", stacklevel=3
                )


def said(name: object) -> str:
    """A name that somebody wrote, short and on one line."""
    text = str(name)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) < 80 else text[:77] + "..."


def _address(part: Any) -> str:
    if hasattr(part, "__qualname__"):
        return f"{part.__module__}.{part.__qualname__}"
    return repr(part)
