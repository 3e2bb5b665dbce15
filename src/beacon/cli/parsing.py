"""Command lines into dataclasses and calls; what is wrong with them is one line.

Two passes. The first chooses parts (`beacon.cli.parts`), which decides what options there are; the second is
tyro's. tyro tells what is wrong as data, and the words are ours.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, TextIO, Union, cast, get_args, get_origin, get_type_hints

import tyro

# The one place that knows of this module: it is private, which is why pyproject.toml allows no later series.
from tyro import _errors as tyro_errors
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from beacon.cli import parts
from beacon.cli.help_text import Fitted
from beacon.errors import UserError, meant
from beacon.option_words import is_unnamed
from beacon.plain import LARGEST_INTEGER

TOO_LARGE = "beyond 64 bits"
NOTHING = "None"  # said for an option that may be left out
WORDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path", "STR": "a text"}


class UnknownOption(UserError):
    """An option that there is not.

    Args:
        option: as it was written, without its value.
        near: the question whether another one was meant, see `beacon.errors.meant`.
        see: where options are listed.
    """

    def __init__(self, option: str, near: str, see: str) -> None:
        super().__init__(f"there is no option {option}; {near}{see}")
        self.option, self.see = option, see


def parse(
    target: Any,
    arguments: Sequence[str],
    *,
    prog: str,
    description: str | None = None,
    default: Any = None,
    known: Sequence[str] = (),
) -> Any:
    """An instance of a dataclass from its command line, or what a function returns when called with it.

    Args:
        target: dataclass, or function with annotated arguments.
        arguments: the words after ``prog``.
        prog: the command, for messages and help.
        description: the text above the options in ``--help``; by default the docstring.
        default: instance with the values of options that are not said. Options whose type is a base of parts
            become choices, see `beacon.cli.parts`.
        known: further options, which the caller has taken out of ``arguments``.

    ``--help`` prints and raises SystemExit(0).
    """
    words = [with_hyphens(word) for word in arguments]
    if default is not None:
        default, words = parts.choose(default, words)
        about = parts.describe(default)
        description = f"{description or ''}\n\n{about}" if about else description

    names = [*option_names(target, default), *known]

    def refuse(event: tyro_errors.ParseErrorEvent) -> None:
        raise complaint(event, words, names, prog) from None

    options: dict[str, Any] = {} if default is None else {"default": default}
    asks_for_help = any(word in ("-h", "--help") for word in words)
    output = cast("TextIO", Fitted(sys.stdout)) if asks_for_help else sys.stdout
    with tyro_errors.on_parse_error(refuse), redirect_stdout(output):
        try:
            return tyro.cli(
                target, prog=prog, description=description, args=words, registry=_numbers(), **options
            )
        except ValueError as error:
            if isinstance(error, UserError) or inspect.isfunction(target):
                raise
            raise UserError(_as_option(str(error), names)) from None  # of a dataclass's own checks


def with_hyphens(word: str) -> str:
    """``--log_every=3`` as ``--log-every=3``, which is how options are called."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def complaint(
    event: tyro_errors.ParseErrorEvent, words: Sequence[str], known: Sequence[str], prog: str
) -> UserError:
    """What tyro found wrong, in one line: what, where, and what to do.

    Args:
        event: what tyro says.
        words: the command line.
        known: names of all options.
        prog: the command.
    """
    see = f"see {prog} --help"
    # An option that is misspelt is said first: it is often why another one is missing.
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and len(name) > 2 and name not in known:
            return UnknownOption(name, meant(name, known), see)
    if isinstance(event, tyro_errors.MissingArgs):
        names = [argument.arg.display_name() for argument in event.missing_arguments]
        # Positional ones are written as the help writes them.
        missing = ", ".join(name if name.startswith("-") else name.upper() for name in names)
        return UserError(f"{prog}: {missing} {'is' if len(names) == 1 else 'are'} missing; {see}")
    if isinstance(event, tyro_errors.UnrecognizedArgs):
        return UserError(f"{prog}: '{event.tokens[0]}' belongs to no option; {see}")
    if isinstance(event, tyro_errors.InvalidChoice):
        choices = ", ".join(event.choices)
        near = meant(str(event.value), event.choices)
        return UserError(f"{event.argument.display_name()} {event.value}: {near}choose one of {choices}")
    if isinstance(event, tyro_errors.BadValue):
        return UserError(f"{event.argument.display_name()}: needs {_expected(event.argument)}; {see}")
    if isinstance(event, tyro_errors.InstantiationFailure):
        if event.argument is None:  # of a dataclass's own checks, which are in our words
            return UserError(_as_option(str(event.message), known))
        name = event.argument.display_name()
        expected = _expected(event.argument)
        if TOO_LARGE in str(event.message):
            expected = f"a whole number of at most {LARGEST_INTEGER}"
        return UserError(f"{' '.join([name, *_given(name, words)])}: {expected} expected; {see}")
    return UserError(f"{prog}: the options are wrong; {see}")


def _as_option(message: str, known: Sequence[str]) -> str:
    """A complaint about the field ``q_max`` as one about the option ``--q-max``, where there is that one."""
    field = re.match(r"([a-z][a-z0-9_]*): ", message)
    if field is None:
        return message
    option = f"--{field[1].replace('_', '-')}"
    return option + message[field.end(1) :] if option in known else message


def option_names(target: Any, default: Any = None) -> list[str]:
    """Names of all options of a dataclass or function: ``--alpha``, ``--policy.horizon``, ..."""
    names = [f"--{name}" for name in _names(target, default)]
    choices = [] if default is None else [choice.flag for choice in parts.find(default)]
    return [*names, *choices, "--help"]


def _names(target: Any, default: Any) -> Iterator[str]:
    for name, hint in _hints(target).items():
        option = name.replace("_", "-")
        value = getattr(default, name, None)
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        prefix = "" if is_unnamed(hint) else f"{option}."
        nested = type(value) if is_dataclass(value) else inner
        if isinstance(nested, type) and is_dataclass(nested):
            yield from (f"{prefix}{inside}" for inside in _names(nested, value))
        elif isinstance(value, tuple) and any(is_dataclass(member) for member in value):
            for number, member in enumerate(value):
                yield from (f"{prefix}{number}.{inside}" for inside in _names(type(member), member))
        else:
            yield option
            if inner is bool:
                yield f"no-{option}"


def _hints(target: Any) -> dict[str, Any]:
    origin = get_origin(target) or target
    hints = get_type_hints(origin, include_extras=True)
    if is_dataclass(origin):
        return {entry.name: hints[entry.name] for entry in fields(origin)}
    return {name: hints[name] for name in inspect.signature(origin).parameters}


def _given(option: str, words: Sequence[str]) -> list[str]:
    """The values that were said for an option, the last time."""
    values: list[str] = []
    for number, word in enumerate(words):
        if word.startswith(f"{option}="):
            values = [word.partition("=")[2]]
        elif word == option:
            rest = words[number + 1 :]
            ends = [n for n, value in enumerate(rest) if value.startswith("--")]
            values = list(rest[: ends[0]] if ends else rest)
    return values[:5]


def _expected(argument: Any) -> str:
    """In words, what tyro's ``INT``, ``FLOAT|{auto}`` or ``[PATH [PATH ...]]`` stands for."""
    said = str(argument.lowered.metavar)
    words = said.strip("[]").split()
    if said.startswith("["):
        return f"a list, each {WORDS.get(words[0], words[0])}"
    if len(words) > 1:
        return f"{len(words)} values, each {WORDS.get(words[0], words[0])}"
    alternatives = [WORDS.get(word, word.strip("{}").replace(",", ", ")) for word in said.split("|")]
    return " or ".join(sorted(alternatives, key=lambda word: word == "None"))


def _numbers() -> ConstructorRegistry:
    """Numbers that mean something: not NaN, and no whole numbers beyond 64 bits."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type is not float and info.type is not int:
            return None
        read = _float if info.type is float else _int
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=info.type.__name__.upper(),
            instance_from_str=lambda texts: read(texts[0]),
            # A float's default may be written as a whole number.
            is_instance=lambda value: (
                type(value) is info.type or ("~" if info.type is float and type(value) is int else False)
            ),
            str_from_instance=lambda value: [str(value)],
        )

    registry.primitive_rule(_optional)
    return registry


def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """What may be left out is shown as ``PATH``, not as ``{None}|PATH``; None can still be said."""
    kinds = get_args(info.type) if info.type_origin in (Union, UnionType) else ()
    if type(None) not in kinds:
        return None
    rest: Any = Union[tuple(kind for kind in kinds if kind is not type(None))]  # noqa: UP007
    inner = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(rest, info.markers))
    if not isinstance(inner, PrimitiveConstructorSpec) or inner.nargs not in (1, "*"):
        return None
    return PrimitiveConstructorSpec(
        nargs=inner.nargs,
        metavar=inner.metavar,
        instance_from_str=lambda texts: None if texts == [NOTHING] else inner.instance_from_str(texts),
        is_instance=lambda value: value is None or inner.is_instance(value),
        str_from_instance=lambda value: [NOTHING] if value is None else inner.str_from_instance(value),
        choices=None if inner.choices is None else (*inner.choices, NOTHING),
    )


def _float(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError("not a number")
    return value


def _int(text: str) -> int:
    value = int(text)
    if abs(value) > LARGEST_INTEGER:
        raise ValueError(TOO_LARGE)
    return value
