"""Success against the length of the run: does the order of methods still change?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beacon.report import Axis, Figure, Panel, line
from beacon.suites.figures import RATE
from beacon.suites.tables import Column, Rate, seeds_in_words

STEPS = Axis("gradient steps", log=True)
PRESETS = ("quick", "free-view", "long")  # that differ in the length of the run alone


def run_length_figure(columns: Mapping[int, Sequence[Column]]) -> Figure:
    """A panel per column that was run at several lengths, a line per method.

    Every line has the seeds that the method was run with at all of its lengths; panels name those of each.

    Args:
        columns: of one suite, by gradient steps.
    """
    curves: dict[str, dict[str, dict[int, Rate]]] = {}  # column -> method -> steps -> rate
    for steps, of_length in columns.items():
        for column in of_length:
            for entry in column.lines:
                rate = entry.rates.get(column.criteria[0])
                if rate is not None:
                    methods = curves.setdefault(f"{column.title}: {column.criteria[0]}", {})
                    methods.setdefault(entry.title, {})[steps] = rate
    panels = []
    for title, methods in curves.items():
        marks = []
        for number, (name, rates) in enumerate(methods.items()):
            common = set.intersection(*(set(rate.seeds) for rate in rates.values()))
            if len(rates) < 2 or not common:
                continue
            lengths = sorted(rates)
            points = zip(*(rates[steps].of_seeds(common) for steps in lengths), strict=True)
            marks.append(line(f"{name}, {seeds_in_words(common)}", f"run{number % 6}", lengths, *points))
        if marks:
            panels.append(Panel(STEPS, RATE, tuple(marks), title))
    return Figure("run-lengths", "Length of the run", "", tuple(panels))
