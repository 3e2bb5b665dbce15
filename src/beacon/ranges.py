"""Ranges of numbers, said where an option is declared and checked in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from beacon.errors import UserError


@dataclass(frozen=True)
class Range:
    """Which numbers an option takes: ``steps: Annotated[int, Range(1, 10**9)]``; of a tuple, each of them.

    Not-a-number and infinity are never in a range, None always.

    Args:
        low: the smallest.
        high: the largest.
        above: ``low`` itself is not allowed.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    def complaint(self, value: float) -> str | None:
        """What is wrong with the number, or None."""
        if math.isnan(value):
            return "must be a number"
        if value < self.low or (self.above and value == self.low):
            return f"must be {'above' if self.above else 'at least'} {self.low:g}"
        if value > self.high:
            return f"must be at most {self.high:{'d' if isinstance(self.high, int) else 'g'}}"
        return "must be finite" if math.isinf(value) else None


def option_name(field: str) -> str:
    """How the command line calls a field."""
    return f"--{field.replace('_', '-')}"


def check_ranges(options: Any, spelled: Callable[[str], str] = option_name) -> None:
    """Refuse a dataclass with a number outside of its field's `Range`; to be called by ``__post_init__``.

    Args:
        options: instance of a dataclass.
        spelled: field name -> what the user calls it.
    """
    cls: Any = type(options)
    for name, allowed in _ranges(cls):
        value = getattr(options, name)
        for number in value if isinstance(value, tuple | list) else (value,):
            complaint = None if number is None else allowed.complaint(number)
            if complaint is not None:
                raise UserError(f"{spelled(name)} {number}: {complaint}")


@cache
def _ranges(cls: Any) -> tuple[tuple[str, Range], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((name, extra) for name, hint in hints.items() for extra in _extras(hint))


def _extras(hint: Any) -> Iterable[Range]:
    if get_origin(hint) is Annotated:
        return [extra for extra in get_args(hint)[1:] if isinstance(extra, Range)]
    return []
