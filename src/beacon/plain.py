"""Frozen dataclasses ⇄ plain values: the only builder of options from YAML, JSON and suites.

A dataclass that is one of several parts (`beacon.registry`) is written with the name of the part::

    discrepancy: {part: knn-relative, k: 5, tolerance: 2.0}

Names, types and, through the dataclass's own ``__post_init__``, ranges are checked; what is wrong is one line
with the path of the field.
"""

from __future__ import annotations

import math
import reprlib
import types
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from beacon.errors import UserError, meant
from beacon.registry import Registry, said

PART = "part"  # key that names which part a mapping is
LARGEST_DEPTH = 16
_HINTS: dict[type[Any], Mapping[str, Any]] = {}
LARGEST_INTEGER = 2**63 - 1
LONGEST_NAME = 255  # bytes of a file's name
# Metadata of a field that came later than results did: ``field(default=..., metadata=OMIT_DEFAULT)``. Its
# default is not written, so that what results are keyed by stays what it was.
OMIT_DEFAULT: Mapping[str, bool] = types.MappingProxyType({"omit default": True})


class Part:
    """Base of all kinds of parts: ``class Discrepancy(Part, registry=DISCREPANCIES)``, parts inherit it."""

    registry: ClassVar[Registry[Any]]

    def __init_subclass__(cls, registry: Registry[Any] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if registry is not None:
            cls.registry = registry

    @property
    def part_name(self) -> str:
        """The name by which configuration and command line know this part."""
        return type(self).registry.name_of(type(self))


def to_plain(value: Any, depth: int = 0) -> Any:
    """Mappings, lists, strings, numbers, None: what YAML and JSON hold."""
    if depth > 4 * LARGEST_DEPTH:
        raise UserError("the options are nested too deeply")
    if is_dataclass(value) and not isinstance(value, type):
        named = {PART: value.part_name} if isinstance(value, Part) else {}
        return named | {
            entry.name: to_plain(getattr(value, entry.name), depth + 1)
            for entry in fields(value)
            if not _omitted(entry, getattr(value, entry.name))
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, depth + 1) for item in value]
    return str(value) if isinstance(value, Path) else value


def finite(value: Any) -> Any:
    """Plain values with None for every number that is not finite, which JSON does not have.

    Args:
        value: mappings, lists, strings, numbers, None.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def from_plain(kind: Any, value: Any, where: str = "", depth: int = 0) -> Any:
    """An instance of ``kind`` from plain values; missing fields keep their defaults.

    Args:
        kind: a dataclass, a base of parts, or any annotation that a field of one may have.
        value: plain values, as YAML or JSON gave them.
        where: path of the value, for messages.
        depth: how deep it is nested.
    """
    if depth > LARGEST_DEPTH:
        raise UserError(f"{where}: nested too deeply")
    origin = get_origin(kind)
    if origin is Annotated:
        return from_plain(get_args(kind)[0], value, where, depth)
    if kind is Any:
        return value
    if origin is Literal:
        if value not in get_args(kind) or type(value) not in {type(choice) for choice in get_args(kind)}:
            raise _wrong(where, f"one of {', '.join(map(repr, get_args(kind)))}", value)
        return value
    if origin in (Union, types.UnionType):
        return _from_union(get_args(kind), value, where, depth)
    if origin is tuple:
        return _from_tuple(get_args(kind), value, where, depth)
    if origin in (Mapping, dict) or origin is types.MappingProxyType:
        if not isinstance(value, Mapping):
            raise _wrong(where, "a mapping", value)
        inner = get_args(kind)[1] if get_args(kind) else Any
        return {
            str(key): from_plain(inner, item, _join(where, key), depth + 1) for key, item in value.items()
        }
    if isinstance(kind, type) and issubclass(kind, Part) and not is_dataclass(kind):
        return _from_part(kind, value, where, depth)
    if isinstance(kind, type) and is_dataclass(kind):
        return _from_dataclass(kind, value, where, depth)
    return _scalar(kind, value, where)


def changed(options: Any, overrides: Mapping[str, Any], where: str = "") -> Any:
    """A dataclass with some of its fields, also nested ones, set anew from plain values.

    A mapping changes fields of the value that is there; one that names another ``part`` replaces it.
    """
    hints = _type_hints(type(options))
    known = {entry.name for entry in fields(options)}
    values = {}
    for name, value in overrides.items():
        place = _join(where, name)
        if name == PART and isinstance(options, Part):
            continue
        if name not in known:
            raise _unknown(_join(where, said(name)), str(name), sorted(known))
        current = getattr(options, name)
        names_another = isinstance(value, Mapping) and value.get(PART, _name(current)) != _name(current)
        if is_dataclass(current) and isinstance(value, Mapping) and not names_another:
            values[name] = changed(current, value, place)
        else:
            values[name] = from_plain(hints[name], to_plain(value), place)
    try:
        return replace(options, **values)
    except ValueError as error:
        raise UserError(f"{where}: {error}" if where else str(error)) from None


def differences(first: Any, second: Any, prefix: str = "") -> list[str]:
    """Where two plain configurations differ, as ``optimization.seed: 0 and 1``."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return [
            line
            for name in sorted({*first, *second})
            for line in differences(first.get(name), second.get(name), _join(prefix, name))
        ]
    return [] if first == second else [f"{prefix}: {first} and {second}"]


def _type_hints(kind: type[Any]) -> Mapping[str, Any]:
    """Of a dataclass; finding them compiles every annotation, so they are kept."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind, include_extras=True)
    return _HINTS[kind]


def _from_dataclass(kind: type[Any], value: Any, where: str, depth: int) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(where, "a mapping of options", value)
    hints = _type_hints(kind)
    known = [entry.name for entry in fields(kind) if entry.init]
    named = {str(name): item for name, item in value.items()}
    if issubclass(kind, Part):
        part = named.pop(PART, None)
        if part is not None and kind is not kind.registry.get(part):
            raise _wrong(_join(where, PART), f"'{kind.registry.name_of(kind)}'", part)
    for name in named:
        if name not in known:
            raise _unknown(_join(where, said(name)), name, known)
    built = {n: from_plain(hints[n], item, _join(where, n), depth + 1) for n, item in named.items()}
    try:
        return kind(**built)
    except TypeError as error:
        raise UserError(f"{where or kind.__name__}: {error}") from None
    except ValueError as error:
        raise UserError(f"{where}: {error}" if where else str(error)) from None


def _from_part(kind: type[Part], value: Any, where: str, depth: int) -> Any:
    if isinstance(value, str):
        value = {PART: value}
    if not isinstance(value, Mapping) or not isinstance(value.get(PART), str):
        raise _wrong(where, f"{_with_article(kind.registry.what)} with its name under '{PART}'", value)
    return _from_dataclass(kind.registry.find(value[PART], where), value, where, depth)


def _from_tuple(arguments: tuple[Any, ...], value: Any, where: str, depth: int) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, "a list", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        kinds = [arguments[0]] * len(value)
    else:
        kinds = list(arguments)
        if len(kinds) != len(value):
            raise _wrong(where, f"a list of {len(kinds)}", value)
    return tuple(
        from_plain(kind, item, f"{where}[{number}]", depth + 1)
        for number, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _from_union(choices: tuple[Any, ...], value: Any, where: str, depth: int) -> Any:
    if value is None and type(None) in choices:
        return None
    complaint: UserError | None = None
    # A number before a word: "0.9" is a text, 0.9 a number, and 1 is a float where no int is allowed.
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return from_plain(choice, value, where, depth)
        except UserError as error:
            complaint = complaint or error
    raise complaint or _wrong(where, "nothing", value)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is Path:
        if not isinstance(value, str | Path):
            raise _wrong(where, "a path", value)
        if complaint := path_complaint(str(value)):
            raise UserError(f"{where}: {complaint}")
        return Path(value)
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(where, "a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if math.isnan(number) or (isinstance(value, int) and abs(value) > LARGEST_INTEGER):
            raise _wrong(where, "a number", value)
        return number
    if kind in (int, bool, str):
        if type(value) is not kind:
            raise _wrong(where, {int: "a whole number", bool: "true or false", str: "a text"}[kind], value)
        if kind is int and abs(value) > LARGEST_INTEGER:
            raise _wrong(where, f"a whole number of at most {LARGEST_INTEGER}", value)
        return value
    raise UserError(f"{where}: cannot be read from plain values ({kind})")


def path_complaint(path: str) -> str | None:
    """Why this cannot be the path of a file, or None."""
    if "\0" in path:
        return "a path cannot have a NUL character"
    try:
        longest = max(len(part.encode()) for part in path.split("/"))
    except UnicodeEncodeError:
        return "a path must be UTF-8 text; rename the file"
    if longest > LONGEST_NAME or len(path) > 4000:
        return f"a name in the path is longer than {LONGEST_NAME} bytes"
    return None


def _omitted(entry: Field[Any], value: Any) -> bool:
    return bool(entry.metadata.get("omit default")) and bool(value == entry.default)


def _name(value: Any) -> str | None:
    return value.part_name if isinstance(value, Part) else None


def _unknown(place: str, name: str, known: Sequence[str]) -> UserError:
    return UserError(f"{place}: there is no such option; {meant(name, known)}there are {', '.join(known)}")


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _wrong(where: str, expected: str, got: Any) -> UserError:
    try:
        text = reprlib.repr(got)  # of limited depth
    except ValueError:  # a number of thousands of digits
        text = "a number of thousands of digits"
    text = text if len(text) < 80 else text[:77] + "..."
    return UserError(f"{where or 'value'}: {expected} expected, not {text}")


def _join(prefix: str, name: Any) -> str:
    return f"{prefix}.{said(name)}" if prefix else said(name)
