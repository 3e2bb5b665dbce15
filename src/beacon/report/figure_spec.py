"""A figure as data: what it shows, not how. The page's script draws it, and so does `matplotlib_figures`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

MOST_POINTS = 400  # of a line; more than a screen can show
DIGITS = 5  # significant ones that a figure keeps


@dataclass(frozen=True)
class Axis:
    """What is measured along an axis; the unit goes into the label."""

    label: str
    unit: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None  # default: what the marks need
    percent: bool = False  # values are shares

    @property
    def title(self) -> str:
        """Label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Line:
    """A curve, with a band around it where there is one."""

    name: str
    colour: str
    x: list[float | None]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    dashed: bool = False
    kind: Literal["line"] = "line"


@dataclass(frozen=True)
class Bars:
    """A histogram: heights between edges."""

    name: str
    colour: str
    edges: list[float | None]
    heights: list[float | None]
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True)
class Points:
    """A scatter; every point may be a demonstration that can be selected."""

    name: str
    colour: str
    x: list[float | None]
    y: list[float | None]
    demos: list[int] | None = None
    kind: Literal["points"] = "points"


@dataclass(frozen=True)
class Interval:
    """One row of a dot plot: a value with its interval."""

    name: str
    colour: str
    value: float
    low: float
    high: float
    text: str
    kind: Literal["interval"] = "interval"


Mark = Line | Bars | Points | Interval


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""
    note: str = ""  # a number worth reading beside the marks, such as a correlation
    pool: int | None = None  # whose demonstrations the points are


@dataclass(frozen=True)
class Figure:
    """Panels that belong together."""

    key: str  # unique in a report; the name of its files
    title: str
    caption: str
    panels: tuple[Panel, ...] = field(default_factory=tuple)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(panel.marks for panel in self.panels)


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Plain rounded numbers for JSON; what is not finite is None."""
    return [number(value) for value in values]


def number(value: Any) -> float | None:
    """One of them."""
    plain = float(value)
    return float(f"{plain:.{DIGITS}g}") if math.isfinite(plain) else None


def rounded(value: Any, digits: int = 3) -> float | None:
    """A number with so many decimals; None where it is not finite."""
    plain = float(value)
    return round(plain, digits) if math.isfinite(plain) else None


def line(
    name: str,
    colour: str,
    x: Sequence[float] | Any,
    y: Sequence[float] | Any,
    low: Any = None,
    high: Any = None,
    *,
    dashed: bool = False,
) -> Line:
    """A curve of at most `MOST_POINTS` points: the first, the last, and evenly many between."""
    chosen = thin(len(x))

    def pick(values: Any) -> list[float | None]:
        return numbers(np.asarray(values, dtype=np.float64)[chosen])

    return Line(
        name,
        colour,
        pick(x),
        pick(y),
        None if low is None else pick(low),
        None if high is None else pick(high),
        dashed,
    )


def thin(count: int, most: int = MOST_POINTS) -> Any:
    """Indices of at most ``most`` of ``count`` things, evenly, ends included."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(np.int64))
