"""Options as the words of a command line: the inverse of `beacon.cli.parsing`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from beacon.plain import Part

REPEATED = ("source", "rename")  # options that are said once for each value


def option_words(value: Any, default: Any, prefix: str = "") -> list[str]:
    """The options that say how a dataclass differs from its default.

    Args:
        value: instance of an options dataclass.
        default: what a command line that says nothing would give, of the same type.
        prefix: what stands before the names of its options, such as ``policy.``
    """
    words: list[str] = []
    hints = get_type_hints(type(value), include_extras=True)
    for entry in fields(value):
        own, usual = getattr(value, entry.name), getattr(default, entry.name)
        name = f"{prefix}{entry.name.replace('_', '-')}"
        if isinstance(own, Part):
            words += _part_words(own, usual, name)
        elif isinstance(own, tuple) and any(isinstance(part, Part) for part in (*own, *usual)):
            words += parts_words(own, usual, name)
        elif is_dataclass(own):
            # A nested dataclass has its name before its options, unless it was annotated to have none.
            words += option_words(own, usual, prefix if is_unnamed(hints[entry.name]) else f"{name}.")
        elif own != usual:
            words += _value_words(own, name, entry.name in REPEATED)
    return words


def _part_words(own: Part, usual: Part, name: str) -> list[str]:
    if type(own) is type(usual):
        return option_words(own, usual, f"{name}.")
    return [f"--{name}", own.part_name, *option_words(own, type(own)(), f"{name}.")]


def parts_words(own: tuple[Part, ...], usual: tuple[Part, ...], name: str) -> list[str]:
    """The options that say how a list of parts differs from its default.

    Args:
        own: the parts.
        usual: what a command line that says nothing would give.
        name: of the option that lists them.
    """
    words: list[str] = []
    if [type(part) for part in own] != [type(part) for part in usual]:
        words = [f"--{name}", *([part.part_name for part in own] or ["none"])]
        usual = tuple(type(part)() for part in own)
    for number, (part, other) in enumerate(zip(own, usual, strict=True)):
        words += option_words(part, other, f"{name}.{number}.")
    return words


def _value_words(value: Any, name: str, repeated: bool) -> list[str]:
    if isinstance(value, bool):
        before, dot, last = name.rpartition(".")
        return [f"--{name}" if value else f"--{before}{dot}no-{last}"]
    if isinstance(value, tuple) and repeated:
        return [word for item in value for word in (f"--{name}", str(item))]
    return [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]


def is_unnamed(hint: Any) -> bool:
    """Whether the fields of a nested dataclass are options without its name before them."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(getattr(extra, "name", None) == "" for extra in extras)
