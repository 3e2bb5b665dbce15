"""The figure of success against the length of the run."""

from __future__ import annotations

from beacon.suites.run_lengths import run_length_figure
from beacon.suites.tables import Column, Line, Rate


def column(rates: dict[str, dict[int, float]]) -> Column:
    lines = tuple(
        Line(name, name, {"R": Rate(10 * sum(s.values()), 10 * len(s), 0, 1, s, None)})
        for name, s in rates.items()
    )
    return Column("stack", "texture", "", ("R",), None, lines)


def test_a_line_has_the_seeds_that_all_lengths_have() -> None:
    short = column({"beacon": {0: 0.2, 1: 0.4}, "cotrain": {0: 0.6}, "mmd": {0: 0.1}})
    long = column({"beacon": {1: 0.9}, "cotrain": {0: 0.7}, "uot": {0: 0.3}})
    (panel,) = run_length_figure({2500: [short], 10_000: [long]}).panels
    marks = {mark.name: mark for mark in panel.marks}
    assert set(marks) == {"beacon, seed 1", "cotrain, seed 0"}  # the others were run at one length only
    assert (marks["beacon, seed 1"].x, marks["beacon, seed 1"].y) == ([2500, 10_000], [0.4, 0.9])


def test_one_length_is_no_figure() -> None:
    assert run_length_figure({2500: [column({"beacon": {0: 0.2}})]}).empty
