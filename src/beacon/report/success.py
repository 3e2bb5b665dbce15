"""Success rates with intervals, and paired comparisons on shared initial states."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from beacon.analysis import holm, paired_test, wilson
from beacon.report.figure_spec import Axis, Figure, Interval, Panel
from beacon.report.run_view import RunView
from beacon.runs import Evaluation

LEVEL = 0.05


@dataclass(frozen=True)
class Rate:
    """One row of the table of successes."""

    view: RunView
    criterion: str
    successes: float
    episodes: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of successes."""
        return self.successes / self.episodes


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same initial states."""

    first: RunView
    second: RunView
    criterion: str
    only_first: int
    only_second: int
    difference: float
    p_value: float
    adjusted: float  # by Holm, for all comparisons of the setting and criterion

    @property
    def noise(self) -> bool:
        """Whether the difference is within noise."""
        return self.adjusted >= LEVEL


@dataclass(frozen=True)
class Setting:
    """All evaluations from the same initial states of a task."""

    key: tuple[str, str, str, str]  # task, size, domain, region
    states: str
    rates: list[Rate]
    comparisons: list[Comparison]

    @property
    def title(self) -> str:
        """In words."""
        task, size, domain, region = self.key
        return f"{task} ({size}), domain {domain}, region {region}"

    @property
    def criteria(self) -> list[str]:
        """What was measured."""
        return list(dict.fromkeys(rate.criterion for rate in self.rates))


def collect_settings(views: list[RunView]) -> list[Setting]:
    """Evaluations grouped by task and initial states; the settings of most runs first."""
    groups: dict[tuple[Any, str], list[tuple[RunView, Evaluation]]] = {}
    for view in views:
        for evaluation in view.record.evaluations:
            groups.setdefault((evaluation.setting, evaluation.states), []).append((view, evaluation))
    settings = []
    for (key, states), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        criteria = dict.fromkeys(c for _, evaluation in members for c in evaluation.criteria)
        rates = [
            _rate(view, evaluation, criterion)
            for criterion in criteria
            for view, evaluation in members
            if criterion in evaluation.result["rates"]
        ]
        comparisons = [pair for criterion in criteria for pair in _compare(members, criterion)]
        settings.append(Setting(key, states, rates, comparisons))
    return settings


def success_figure(settings: list[Setting]) -> Figure:
    """A row for every run, a panel for every setting and criterion."""
    panels = []
    for setting in settings:
        for criterion in setting.criteria:
            rows = [rate for rate in setting.rates if rate.criterion == criterion]
            marks = tuple(
                Interval(
                    rate.view.title,
                    rate.view.colour,
                    rate.rate,
                    rate.low,
                    rate.high,
                    f"{rate.successes:g} of {rate.episodes}",
                )
                for rate in rows
            )
            axis = Axis(f"{criterion_words(criterion)} rate", "%", limits=(0.0, 1.0), percent=True)
            panels.append(
                Panel(axis, Axis(""), marks, title=f"{setting.title}: {criterion_words(criterion)}")
            )
    return Figure(
        "success",
        "Success rates",
        "Dots: share of evaluation episodes. Bars: 95% Wilson intervals. All runs of a panel started from "
        "the same initial states.",
        tuple(panels),
    )


def _rate(view: RunView, evaluation: Evaluation, criterion: str) -> Rate:
    outcomes = evaluation.outcomes(criterion)
    low, high = wilson(sum(outcomes), len(outcomes))
    return Rate(view, criterion, sum(outcomes), len(outcomes), low, high)


def _compare(members: list[tuple[RunView, Evaluation]], criterion: str) -> list[Comparison]:
    usable = [(view, e) for view, e in members if criterion in e.result["rates"]]
    tests = []
    # Later runs first, so that "BEACON - baseline" reads as a gain when baselines are named first.
    for (second, b), (first, a) in itertools.combinations(usable, 2):
        ours, theirs = (e.outcomes(criterion) for e in (a, b))
        if len(ours) == len(theirs):
            tests.append((first, second, paired_test(ours, theirs)))
    adjusted = holm([test["p_value"] for _, _, test in tests])
    return [
        Comparison(
            first,
            second,
            criterion,
            test["only_first"],
            test["only_second"],
            test["difference"],
            test["p_value"],
            p,
        )
        for (first, second, test), p in zip(tests, adjusted, strict=True)
    ]


CRITERION_WORDS = {
    "success": "success",
    "R": "success (R)",
    "S": "strict success (S)",
    "max_coverage": "largest coverage",
}


def criterion_words(criterion: str) -> str:
    """A criterion as the page calls it."""
    return CRITERION_WORDS.get(criterion, criterion)
