"""Plain values that nobody expects."""

from __future__ import annotations

from typing import Any

import numpy as np

Randomness = np.random.Generator

TEXTS = (
    *("", " ", "a" * 300, "../../etc/passwd", "/etc/passwd", "a\nb", "\x1b[31mred\x1b[0m"),
    *("[bold]x[/bold]", "[/]"),
    *("<script>document.title='owned'</script>", "\"><img src=x onerror=alert(1)>", "{x.__class__}"),
    *("%s%n", "$HOME"),
    *("💥", "\u202egnp.exe", "nan", "None", "~", "-1", "1e999", "2026-13-45", "!!python/object:os.system"),
    *("\0", "'"),
)  # fmt: skip
NUMBERS = (
    0,
    -1,
    1,
    2,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
)


def hostile_value(rng: Randomness) -> Any:
    """A plain value that was not expected."""
    choice = int(rng.integers(7))
    if choice == 0:
        return TEXTS[int(rng.integers(len(TEXTS)))]
    if choice in (1, 2):
        return NUMBERS[int(rng.integers(len(NUMBERS)))]
    plain: list[Any] = [None, True, [], {}, [[[]]], {"a": {"b": 1}}, [1, "a", None], list(range(2000))]
    return plain[int(rng.integers(len(plain)))]
