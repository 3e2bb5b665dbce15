"""A suite's figures as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from beacon.files import replacing
from beacon.report import COLOURS, Axis, Figure, Interval, Mark, Panel, canvas, drawn, line
from beacon.suites.grids import Place, Suite
from beacon.suites.sections import share
from beacon.suites.tables import Column, Line, Rate, ResultStore, make_columns, seeds_in_words

SUCCESS = Axis("success", "%", limits=(0.0, 1.3), percent=True)  # room for the text beside the intervals
RATE = Axis("success", "%", limits=(0.0, 1.0), percent=True)
COUNT = Axis("target demonstrations")
AUC = Axis("AUC of the weights, mean and range over seeds", limits=(0.0, 1.2))


def draw_figures(suite: Suite, places: Sequence[Place], store: ResultStore, stem: Path) -> list[Path]:
    """Write them as ``stem``.svg, ``stem``-faults.svg and so on."""
    columns = make_columns(suite, places, store)
    found: list[tuple[str, AbstractContextManager[Any]]] = []
    shown = scaling_figure(columns) if suite.name == "scaling" else success_figure(columns)
    if not shown.empty:
        found.append(("", drawn(shown)))
    faults = faults_figure(columns)
    if not faults.empty:
        found.append(("-faults", drawn(faults)))
    maps = _maps(places, store)
    if maps:
        found.append(("-maps", maps_sheet(maps)))
    return [_save(sheet, stem.with_name(f"{stem.name}{ending}.svg")) for ending, sheet in found]


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
        for place, (name, points) in enumerate(curves.items()):
            counts, rates = zip(
                *sorted((count, rate.of_seeds(common)) for count, rate in points), strict=True
            )
            marks.append(line(name, f"run{place % 6}", counts, *zip(*rates, strict=True)))
        panels.append(Panel(COUNT, RATE, tuple(marks), f"{title}, {seeds_in_words(common)}"))
    return Figure("scaling", "Scaling", "", tuple(panels))


def faults_figure(columns: Sequence[Column]) -> Figure:
    """A panel per method: how well its weights find each kind of fault."""
    panels = []
    for column in columns:
        for entry in column.lines:
            found: dict[str, list[float]] = {}
            for result in entry.results:
                for kind, one in ((result.get("weights") or {}).get("flaws") or {}).items():
                    if one.get("auc") is not None:
                        found.setdefault(kind, []).append(one["auc"])
            marks = tuple(
                Interval(kind, "source0", mean(values), min(values), max(values), f"{mean(values):.2f}")
                for kind, values in found.items()
            )
            if marks:
                panels.append(Panel(AUC, Axis(""), marks, f"{column.task}: {entry.title}"))
    return Figure("faults", "Faults", "", tuple(panels))


def _maps(places: Sequence[Place], store: ResultStore) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The maps of the first seed, by task and method."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for place in places:
        result = store(place.cell)
        if result is not None and "alignment" in result:
            found.setdefault(place.task, {}).setdefault(place.title, result["alignment"])
    return found


@contextmanager
def maps_sheet(maps: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Any]:
    """Rows: task and feature space. Columns: methods."""
    titles = list(dict.fromkeys(title for methods in maps.values() for title in methods))
    rows = [
        (task, space)
        for task, methods in maps.items()
        for space in dict.fromkeys(name for one in methods.values() for name in one["map"])
    ]
    with canvas(len(titles), len(rows), 1.7, 1.8) as (sheet, axes):
        for (task, space), across in zip(rows, axes, strict=True):
            for title, axis in zip(titles, across, strict=True):
                found = maps[task].get(title)
                axis.set(xticks=[], yticks=[], title=f"{title}\n{task}, {space}")
                if found is None or space not in found["map"]:
                    continue
                x, y = np.array(found["map"][space]["x"]), np.array(found["map"][space]["y"])
                on_target = np.array(found["target"], dtype=bool)
                for side, name, colour in (
                    (~on_target, "source", "source0"),
                    (on_target, "target", "target"),
                ):
                    axis.scatter(x[side], y[side], s=2, linewidths=0, color=COLOURS[colour], label=name)
        axes[0][0].legend(markerscale=3)
        yield sheet


def _save(figure: AbstractContextManager[Any], path: Path) -> Path:
    with figure as sheet, replacing(path) as temporary:
        # Without a date, so that the same figure is the same file.
        sheet.savefig(temporary, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return path
