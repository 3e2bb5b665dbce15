"""The page's figures drawn by matplotlib, for papers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from beacon.report.figure_spec import Axis, Bars, Figure, Interval, Line, Panel, Points

# The page's light colours: see page/style.css.
COLOURS = {
    "run0": "#3f6fa6",
    "run1": "#d4515f",
    "run2": "#22803a",
    "run3": "#983073",
    "run4": "#a37400",
    "run5": "#2b8cae",
    "source0": "#0072b2",
    "source1": "#00875f",
    "source2": "#7a5fb0",
    "source3": "#3a94cc",
    "source4": "#8f6614",
    "source5": "#666c75",
    "target": "#d55e00",
    "sound": "#0072b2",
    "corrupt0": "#d55e00",
    "corrupt1": "#a3246d",
    "corrupt2": "#7d5a00",
}
MARKERS = {"corrupt0": "^", "corrupt1": "D", "corrupt2": "s"}
WIDTH, HEIGHT = 3.4, 2.6  # inches of a panel: two fit a column's pair
ACROSS = 3  # panels

SETTINGS: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "beacon",  # the same figure is the same file
    "pdf.fonttype": 42,
    "text.parse_math": False,  # names of runs may have a $
}


@contextmanager
def canvas(columns: int, rows: int, width: float = WIDTH, height: float = HEIGHT) -> Iterator[Any]:
    """A figure without a display, and its axes (rows, columns)."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    with mpl.rc_context(SETTINGS):
        sheet = Sheet(figsize=(columns * width, rows * height), layout="constrained")
        FigureCanvasAgg(sheet)
        yield sheet, sheet.subplots(rows, columns, squeeze=False)


@contextmanager
def drawn(figure: Figure) -> Iterator[Any]:
    """The figure as matplotlib draws it."""
    columns = min(ACROSS, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    with canvas(columns, rows) as (sheet, axes):
        for panel, axis in zip(figure.panels, axes.flat, strict=False):
            draw_panel(panel, axis)
        for axis in axes.flat[len(figure.panels) :]:
            axis.remove()
        yield sheet


def draw_panel(panel: Panel, axis: Any) -> None:
    """One pair of axes."""
    if panel.marks and isinstance(panel.marks[0], Interval):
        _draw_intervals(panel, axis)
    else:
        for mark in panel.marks:
            if isinstance(mark, Line):
                _draw_line(mark, panel, axis)
            elif isinstance(mark, Bars):
                axis.stairs(
                    _scaled(mark.heights, panel.y),
                    _scaled(mark.edges, panel.x),
                    fill=True,
                    color=COLOURS[mark.colour],
                    alpha=0.4,
                    label=mark.name,
                )
            elif isinstance(mark, Points):
                axis.scatter(
                    _scaled(mark.x, panel.x),
                    _scaled(mark.y, panel.y),
                    s=9,
                    color=COLOURS[mark.colour],
                    marker=MARKERS.get(mark.colour, "o"),
                    linewidths=0,
                    alpha=0.8,
                    label=mark.name,
                )
        axis.set_ylabel(panel.y.title)
        _arrange(panel, axis)
        if panel.marks:
            axis.legend()
    axis.set_xlabel(panel.x.title)
    title = panel.title if not panel.note else f"{panel.title}\n{panel.note}".strip()
    axis.set_title(title, loc="left")


def _draw_line(mark: Line, panel: Panel, axis: Any) -> None:
    colour = COLOURS[mark.colour]
    x = _scaled(mark.x, panel.x)
    style = "--" if mark.dashed else "-"
    marker = "o" if len(x) < 3 else None
    axis.plot(x, _scaled(mark.y, panel.y), style, color=colour, label=mark.name, marker=marker)
    if mark.low is not None and mark.high is not None:
        low, high = _scaled(mark.low, panel.y), _scaled(mark.high, panel.y)
        axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)


def _draw_intervals(panel: Panel, axis: Any) -> None:
    rows = [mark for mark in panel.marks if isinstance(mark, Interval)]
    for row, mark in enumerate(rows):
        colour = COLOURS[mark.colour]
        low, value, high = _scaled([mark.low, mark.value, mark.high], panel.x)
        axis.plot([low, high], [row, row], color=colour, alpha=0.4, linewidth=4, solid_capstyle="round")
        axis.plot([value], [row], "o", color=colour)
        axis.annotate(
            mark.text, (high, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7
        )
    axis.set_yticks(range(len(rows)), [mark.name for mark in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(*_scaled(panel.x.limits or (0.0, 1.0), panel.x))


def _arrange(panel: Panel, axis: Any) -> None:
    """Scales and limits as on the page."""
    values = [
        v
        for mark in panel.marks
        if isinstance(mark, Line)
        for v in (*mark.y, *(mark.low or ()))
        if v is not None
    ]
    if panel.y.log and values and min(values) > 0:
        axis.set_yscale("log")
    elif not panel.y.log:
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    for limits, which, put in (
        (panel.x.limits, panel.x, axis.set_xlim),
        (panel.y.limits, panel.y, axis.set_ylim),
    ):
        if limits is not None:
            put(*_scaled(limits, which))


def _scaled(values: Any, axis: Axis) -> Any:
    """Plain arrays, shares as per cent."""
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return 100 * array if axis.percent else array
