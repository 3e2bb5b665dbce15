"""Refusals of options that cannot work, in one line, by the name that the option has on the command line."""

from __future__ import annotations

import math

from beacon.errors import UserError


def require_at_least(least: float, **values: float) -> None:
    """Every value is a finite number of at least ``least``."""
    for name, value in values.items():
        if not least <= value < math.inf:
            raise refusal(name, value, f"at least {least}")


def require_positive(**values: float) -> None:
    """Every value is a finite number above 0."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise refusal(name, value, "above 0")


def require_within(low: float, high: float, **values: float) -> None:
    """Every value is from ``low`` to ``high``, both included."""
    for name, value in values.items():
        if not low <= value <= high:
            raise refusal(name, value, f"from {low} to {high}")


def refusal(name: str, value: object, expected: str) -> UserError:
    """The one line about an option, for example ``--t-min 2.0: must be from 0 to 1``."""
    return UserError(f"--{name.replace('_', '-')} {value}: must be {expected}")
