"""Parts by name: ``--discrepancy NAME`` chooses one, ``--discrepancy.k 7`` sets its options.

An options dataclass has a field whose type is a base of parts (`beacon.plain.Part`), or a tuple of them, and
a default instance. The choice replaces the default by the part of that name with its own defaults; then the
part's fields are options like any others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, NoReturn, get_args, get_origin, get_type_hints

from beacon.errors import UserError
from beacon.option_words import is_unnamed
from beacon.plain import Part

NONE = "none"  # chooses no part where several may be chosen
COLUMN = 22  # width of options in the help


@dataclass(frozen=True)
class Choice:
    """One field of an options dataclass, possibly nested, that holds parts."""

    path: tuple[str | int, ...]  # attributes and positions that lead to it
    flag: str  # as --discrepancy
    base: type[Part]
    several: bool  # a tuple of parts
    chosen: tuple[Part, ...]

    @property
    def names(self) -> list[str]:
        """Of the parts that are chosen now."""
        return [part.part_name for part in self.chosen]


class ChoiceParser(argparse.ArgumentParser):
    """Takes a few declared options out of a command line; what is wrong is one line, not an exit."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False, exit_on_error=False)

    def error(self, message: str) -> NoReturn:
        option, _, reason = message.removeprefix("argument ").partition(": ")
        raise UserError(f"{option}: needs a value" if reason.startswith("expected") else message)

    def take(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Values of the declared options, and the words that are left, in order."""
        try:
            return self.parse_known_args(list(arguments))
        except argparse.ArgumentError as error:
            self.error(str(error))


def choose(default: Any, arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """The default with the parts that the command line names, and the words that are left.

    Args:
        default: instance of an options dataclass.
        arguments: the command line.
    """
    words, done = list(arguments), set[str]()
    # A part that was chosen may have parts of its own to choose: outer choices first.
    while choices := _outermost([choice for choice in find(default) if choice.flag not in done]):
        parser = ChoiceParser()
        for number, choice in enumerate(choices):
            parser.add_argument(choice.flag, dest=str(number), nargs="*" if choice.several else None)
        values, words = parser.take(words)
        for number, choice in enumerate(choices):
            done.add(choice.flag)
            said = getattr(values, str(number))
            if said is not None:
                default = _replaced(default, choice.path, _made(choice, said))
    return default, words


def find(options: Any) -> list[Choice]:
    """All fields of an options dataclass that hold parts, nested ones included."""
    return list(_find(options, (), ""))


def describe(options: Any) -> str:
    """What can be chosen, for ``--help``; empty where nothing can."""
    lines = []
    for choice in find(options):
        names, chosen = ", ".join(choice.base.registry), ", ".join(choice.names) or NONE
        option = f"{choice.flag} {'[NAME ...]' if choice.several else 'NAME'}"
        what = f"any of {names}, or {NONE}" if choice.several else f"one of {names}"
        lines.append(f"  {option:<{COLUMN}}  {what}; chosen: {chosen}")
    if not lines:
        return ""
    return "\n".join(["parts, chosen by name:", *lines])


def _outermost(choices: list[Choice]) -> list[Choice]:
    flags = [f"{choice.flag}." for choice in choices]
    return [choice for choice in choices if not choice.flag.startswith(tuple(flags))]


def _find(options: Any, path: tuple[str | int, ...], prefix: str) -> Iterator[Choice]:
    hints = get_type_hints(type(options), include_extras=True)
    for entry in fields(options):
        hint, value = hints[entry.name], getattr(options, entry.name)
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        flag, way = f"{prefix}{entry.name.replace('_', '-')}", (*path, entry.name)
        if _is_base(inner):
            yield Choice(way, f"--{flag}", inner, False, (value,))
            yield from _find(value, way, f"{flag}.")
        elif get_origin(inner) is tuple and _is_base(get_args(inner)[0]):
            yield Choice(way, f"--{flag}", get_args(inner)[0], True, value)
            for number, part in enumerate(value):
                yield from _find(part, (*way, number), f"{flag}.{number}.")
        elif is_dataclass(value):
            yield from _find(value, way, prefix if is_unnamed(hint) else f"{flag}.")


def _is_base(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Part) and hint is not Part


def _made(choice: Choice, said: str | list[str]) -> Any:
    if isinstance(said, str):
        return choice.base.registry.find(said, choice.flag)()
    names = [] if said == [NONE] else said
    return tuple(choice.base.registry.find(name, choice.flag)() for name in names)


def _replaced(options: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """The options with another value at the end of a path."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        inside = _replaced(options[step], tuple(rest), value)
        return (*options[:step], inside, *options[step + 1 :])
    return replace(options, **{step: _replaced(getattr(options, step), tuple(rest), value)})
