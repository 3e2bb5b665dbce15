"""A suite's figures as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import mean
from textwrap import wrap
from typing import Any

import numpy as np

from beacon.files import replacing
from beacon.report import COLOURS, Axis, Figure, Interval, Mark, Panel, canvas, drawn, line
from beacon.runs.weights_summary import QUANTILES
from beacon.suites.sections import share
from beacon.suites.setting import TableEntry
from beacon.suites.suite import Suite
from beacon.suites.tables import Column, Line, Rate, ResultStore, make_columns, seeds_in_words

SUCCESS = Axis("success", "%", limits=(0.0, 1.3), percent=True)  # room for the text beside the intervals
RATE = Axis("success", "%", limits=(0.0, 1.0), percent=True)
COUNT = Axis("target demonstrations")
MOST_LETTERS = 36  # of a line above a panel
WEIGHT = Axis("weight")
SHARE = Axis("share of the domain's windows with less", "%", limits=(0.0, 1.0), percent=True)
AUC = Axis("AUC of the weights, mean and range over seeds", limits=(0.0, 1.2))


def draw_figures(suite: Suite, entries: Sequence[TableEntry], store: ResultStore, stem: Path) -> list[Path]:
    """Write them as ``stem``.svg, ``stem``-corruptions.svg and so on."""
    columns = make_columns(suite, entries, store)
    sheets: list[tuple[str, AbstractContextManager[Any]]] = []
    shown = scaling_figure(columns) if suite.name == "scaling" else success_figure(columns)
    if not shown.empty:
        sheets.append(("", drawn(shown)))
    corruptions = corruption_figure(columns)
    if not corruptions.empty:
        sheets.append(("-corruptions", drawn(corruptions)))
    for ending, figure in (("-weights", weight_figure(columns)), ("-weights-end", spread_figure(columns))):
        if not figure.empty:
            sheets.append((ending, drawn(figure)))
    maps = _maps(entries, store)
    if maps:
        sheets.append(("-maps", maps_sheet(maps)))
    return [save_figure(sheet, stem.with_name(f"{stem.name}{ending}.svg")) for ending, sheet in sheets]


def success_figure(columns: Sequence[Column]) -> Figure:
    """A panel per column: rates with intervals, the paper's in words."""
    panels = []
    for column in columns:
        criterion = column.criteria[0]
        marks: list[Mark] = []
        for entry in column.lines:
            if criterion in entry.rates:
                marks.append(_interval(entry, entry.rates[criterion], column))
        panels.append(Panel(SUCCESS, Axis(""), tuple(marks), f"{column.title}: {criterion}"))
    return Figure("success", "Success", "", tuple(panels))


def _interval(entry: Line, rate: Rate, column: Column) -> Interval:
    """Gray where seeds are missing that other rows have: such a rate is not to be compared with theirs."""
    whole = set(entry.seeds) == column.seeds
    paper = "" if rate.paper is None else f", paper {share(rate.paper)}"
    seeds = "" if whole else f" ({seeds_in_words(entry.seeds)})"
    colour = "target" if entry.row == column.reference else "source0" if whole else "source5"
    return Interval(
        entry.title, colour, rate.value, rate.low, rate.high, f"{share(rate.value)}{seeds}{paper}"
    )


def scaling_figure(columns: Sequence[Column]) -> Figure:
    """A panel per gap: success against the number of target demonstrations, by the seeds that all have."""
    gaps: dict[str, dict[str, list[tuple[int, Rate]]]] = {}
    for column in columns:
        count = int(column.detail.removeprefix("n="))
        for entry in column.lines:
            if entry.rates:
                curves = gaps.setdefault(f"{column.task}, {column.gap}: {column.criteria[0]}", {})
                curves.setdefault(entry.title, []).append((count, entry.rates[column.criteria[0]]))
    panels = []
    for title, curves in gaps.items():
        common = set.intersection(*(set(rate.seeds) for points in curves.values() for _, rate in points))
        if not common or len({count for points in curves.values() for count, _ in points}) < 2:
            continue  # nothing to draw a curve of
        marks = []
        for number, (name, points) in enumerate(curves.items()):
            counts, rates = zip(
                *sorted((count, rate.of_seeds(common)) for count, rate in points), strict=True
            )
            marks.append(line(name, f"run{number % 6}", counts, *zip(*rates, strict=True)))
        panels.append(Panel(COUNT, RATE, tuple(marks), f"{title}, {seeds_in_words(common)}"))
    return Figure("scaling", "Scaling", "", tuple(panels))


def corruption_figure(columns: Sequence[Column]) -> Figure:
    """A panel per method: how well its weights find each corruption."""
    panels = []
    for column in columns:
        for entry in column.lines:
            areas: dict[str, list[float]] = {}
            for result in entry.results:
                for name, demos in ((result.get("weights") or {}).get("flaws") or {}).items():
                    if demos.get("auc") is not None:
                        areas.setdefault(name, []).append(demos["auc"])
            marks = tuple(
                Interval(name, "source0", mean(values), min(values), max(values), f"{mean(values):.2f}")
                for name, values in areas.items()
            )
            if marks:
                panels.append(Panel(AUC, Axis(""), marks, f"{column.task}: {entry.title}"))
    return Figure("corruptions", "Corruptions", "", tuple(panels))


def weight_figure(columns: Sequence[Column]) -> Figure:
    """A panel per method and column, first seed: mean weight of every domain over the run, ± deviation."""
    panels = []
    for column, entry, weights in _weighed(columns):
        if (history := weights.get("history")) is None:
            continue
        marks = []
        for name, colour in _domain_colours(weights).items():
            mean, spread = (np.array(history["domains"][name][key]) for key in ("mean", "std"))
            label = weights["domains"][name]["role"]
            marks.append(line(label, colour, history["steps"], mean, mean - spread, mean + spread))
        panels.append(Panel(Axis("gradient steps"), WEIGHT, tuple(marks), _heading(column, entry)))
    return Figure("weights", "Weights", "", tuple(panels))


def spread_figure(columns: Sequence[Column]) -> Figure:
    """A panel per method and column, first seed: weights at the end by quantile of every domain's windows."""
    panels = []
    for column, entry, weights in _weighed(columns):
        marks = tuple(
            line(weights["domains"][name]["role"], colour, QUANTILES, weights["domains"][name]["quantiles"])
            for name, colour in _domain_colours(weights).items()
        )
        panels.append(Panel(SHARE, WEIGHT, marks, _heading(column, entry)))
    return Figure("weights-end", "Weights at the end", "", tuple(panels))


def _weighed(columns: Sequence[Column]) -> Iterator[tuple[Column, Line, Mapping[str, Any]]]:
    """Rows that have weights, with those of their first seed."""
    for column in columns:
        for entry in column.lines:
            weights = next((result["weights"] for result in entry.results if result.get("weights")), None)
            if weights is not None:
                yield column, entry, weights


def _heading(column: Column, entry: Line) -> str:
    """Setting and method, in lines that are not wider than a panel."""
    return "\n".join(wrap(f"{column.title}:", MOST_LETTERS) + wrap(entry.title, MOST_LETTERS))


def _domain_colours(weights: Mapping[str, Any]) -> dict[str, str]:
    sources = [name for name, domain in weights["domains"].items() if domain["role"] == "source"]
    return {
        name: f"source{sources.index(name) % 6}" if name in sources else "target"
        for name in weights["domains"]
    }


def _maps(entries: Sequence[TableEntry], store: ResultStore) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The maps of the first seed, by task and method."""
    maps: dict[str, dict[str, Mapping[str, Any]]] = {}
    for entry in entries:
        result = store(entry.experiment)
        if result is not None and "alignment" in result:
            maps.setdefault(entry.task, {}).setdefault(entry.title, result["alignment"])
    return maps


@contextmanager
def maps_sheet(maps: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Any]:
    """Rows: task and feature space. Columns: methods."""
    titles = list(dict.fromkeys(title for methods in maps.values() for title in methods))
    rows = [
        (task, space)
        for task, methods in maps.items()
        for space in dict.fromkeys(name for alignment in methods.values() for name in alignment["map"])
    ]
    with canvas(len(titles), len(rows), 1.7, 1.8) as (sheet, axes):
        for (task, space), across in zip(rows, axes, strict=True):
            for title, axis in zip(titles, across, strict=True):
                alignment = maps[task].get(title)
                axis.set(xticks=[], yticks=[], title=f"{title}\n{task}, {space}")
                if alignment is None or space not in alignment["map"]:
                    continue
                x, y = (np.array(alignment["map"][space][axis_name]) for axis_name in ("x", "y"))
                on_target = np.array(alignment["target"], dtype=bool)
                for side, name, colour in (
                    (~on_target, "source", "source0"),
                    (on_target, "target", "target"),
                ):
                    axis.scatter(x[side], y[side], s=2, linewidths=0, color=COLOURS[colour], label=name)
        axes[0][0].legend(markerscale=3)
        yield sheet


def save_figure(figure: AbstractContextManager[Any], path: Path) -> Path:
    """Write a figure as SVG.

    Args:
        figure: as `beacon.report.drawn` gives it.
        path: of the file.
    """
    with figure as sheet, replacing(path) as temporary:
        # Without a date, so that the same figure is the same file.
        sheet.savefig(temporary, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return path
