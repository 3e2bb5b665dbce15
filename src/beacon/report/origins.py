"""Where the weights come from: phase, coverage, discrepancy, loss, and flaws that are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.report.spec import Axis, Bars, Figure, Line, Panel, Points, line, numbers, thin
from beacon.report.views import RunView

Array = NDArray[np.float64]
PHASES = 20
MOST_DEMOS = 1200  # points of a scatter
PHASE = Axis("phase of the demonstration", "%", limits=(0.0, 1.0), percent=True)
DEMO_WEIGHT = Axis("mean weight of a demonstration")


@dataclass(frozen=True)
class Bias:
    """How strongly source weights follow something that is not quality."""

    phase: float | None  # share of the variance of window weights that the phase explains
    early: float | None  # mean weight in the first and in the last tenth
    late: float | None
    coverage: float | None  # rank correlation with the distance to the nearest target demonstration
    found_flaws: float | None  # probability that a sound demonstration outweighs one with a known flaw


def measure_bias(view: RunView) -> Bias:
    """How much the weights follow phase and coverage, and how well they find flaws that are known."""
    table = view.record.windows
    if table is None:
        return Bias(None, None, None, None, None)
    rows = view.source_windows
    weight, phase = table.weight[rows], table.phase[rows]
    explained = early = late = None
    if len(weight):
        explained = variance_explained(weight, _bins(phase))
        early, late = _mean(weight[phase <= 0.1]), _mean(weight[phase >= 0.9])
    means, demos = table.episode_means(table.weight), view.source_demos
    coverage = None
    if view.distance is not None and view.numbers is not None:
        coverage = spearman(means[demos], view.distance.values[view.numbers[demos]])
    found = None
    if view.flaws is not None:
        bad = np.array([bool(view.flaws[demo]) for demo in demos])
        found = area_under_curve(means[demos][~bad], means[demos][bad])
    return Bias(explained, early, late, coverage, found)


def phase_figure(views: list[RunView]) -> Figure:
    """Weight, loss and discrepancy along the demonstrations."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None:
            continue
        rows = view.source_windows
        explained = variance_explained(table.weight[rows], _bins(table.phase[rows]))
        for label, values in (
            ("weight q", table.weight),
            ("loss ℓ", table.loss),
            ("discrepancy d", table.discrepancy),
        ):
            if values is None:
                continue
            marks = _along_phase(view, values, with_target=label != "discrepancy d")
            note = ""
            if label == "weight q" and explained is not None:
                note = f"phase explains {explained:.0%} of the source weights' variance"
            panels.append(Panel(PHASE, Axis(label), tuple(marks), f"{view.title}: {label[:-2]}", note))
    return Figure(
        "phase",
        "Along the demonstration",
        "Means over the windows of each phase, with the middle 80% of the source windows. Weights that "
        "follow the loss through the phases favour parts of demonstrations, not good demonstrations.",
        tuple(panels),
    )


def _along_phase(view: RunView, values: Array, *, with_target: bool) -> list[Line]:
    table = view.record.windows
    assert table is not None
    middle = (np.arange(PHASES) + 0.5) / PHASES
    marks = []
    for place, domain in enumerate(table.domains):
        if domain == view.target and not with_target:
            continue
        rows = table.domain == place
        bins, mine = _bins(table.phase[rows]), values[rows]
        filled = [b for b in range(PHASES) if (bins == b).any()]
        groups = [mine[bins == b] for b in filled]
        low, high = np.array([np.quantile(g, (0.1, 0.9)) for g in groups]).T
        band = domain != view.target
        marks.append(
            line(
                view.role_of(domain),
                view.colour_of(domain),
                middle[filled],
                [g.mean() for g in groups],
                low if band else None,
                high if band else None,
            )
        )
    return marks


def coverage_figure(views: list[RunView]) -> Figure:
    """Weight of source demonstrations against how far from any target demonstration they start."""
    panels = []
    what = "initial state"
    for view in views:
        if view.record.windows is None or view.distance is None or view.numbers is None:
            continue
        what = view.distance.what
        values = view.distance.values[view.numbers]
        x = Axis("distance to the nearest target demonstration", view.distance.unit)
        panels.append(_scatter(view, values, x))
    return Figure(
        "coverage",
        "Coverage",
        f"Every point is a source demonstration, by its {what} at the start. A strong negative correlation "
        "means that weights fade what the target demonstrations happen not to cover: the reason to have a "
        "source.",
        tuple(panels),
    )


def cause_figure(views: list[RunView]) -> Figure:
    """Weight against discrepancy and loss."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None:
            continue
        for label, values in (("mean discrepancy d", table.discrepancy), ("mean loss ℓ", table.loss)):
            if values is not None:
                panels.append(_scatter(view, table.episode_means(values), Axis(label)))
    return Figure(
        "causes",
        "Discrepancy and loss",
        "Every point is a source demonstration at the newest checkpoint. The weights fall with both by "
        "design.",
        tuple(panels),
    )


def flaws_figure(views: list[RunView]) -> Figure:
    """Weights of sound and flawed demonstrations, where the dataset says which are which."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None or view.flaws is None:
            continue
        demos = view.source_demos
        means = table.episode_means(table.weight)[demos]
        kinds = np.array([view.flaws[demo] or "sound" for demo in demos])
        edges = np.linspace(0, max(float(means.max()), 1e-9), 25)
        marks = []
        notes = []
        for place, kind in enumerate(sorted(set(kinds), key=lambda k: (k != "sound", k))):
            mine = means[kinds == kind]
            share = np.histogram(mine, edges)[0] / len(mine)
            colour = "good" if kind == "sound" else f"bad{(place - 1) % 3}"
            label = f"{kind}: {len(mine)} demonstrations, mean {mine.mean():.3g}"
            marks.append(Bars(label, colour, numbers(edges), numbers(share)))
            if kind != "sound":
                area = area_under_curve(means[kinds == "sound"], mine)
                notes.append("" if area is None else f"AUC {kind} {area:.2f}")
        y = Axis("share of the group", "%", percent=True)
        panels.append(Panel(DEMO_WEIGHT, y, tuple(marks), view.title, "; ".join(filter(None, notes))))
    return Figure(
        "flaws",
        "Known flaws",
        "Source demonstrations that were spoilt on purpose, and the sound ones; no method is told which. "
        "AUC: how often a sound demonstration outweighs a flawed one; 0.5 is chance.",
        tuple(panels),
    )


def rank_figure(view: RunView) -> Figure:
    """All source demonstrations of a run in the order of their weights."""
    table = view.record.windows
    assert table is not None
    demos = view.source_demos
    means = table.episode_means(table.weight)[demos]
    order = np.argsort(-means, kind="stable")
    chosen = order[thin(len(order), MOST_DEMOS)]
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    panel = Panel(
        Axis("rank of the demonstration"),
        DEMO_WEIGHT,
        tuple(_grouped(view, demos[chosen], rank[chosen], means[chosen])),
        library=view.library_place,
    )
    return Figure(
        f"rank-{view.place}",
        "All source demonstrations",
        "Select a point to see the demonstration.",
        (panel,),
    )


def _scatter(view: RunView, values: Array, x: Axis) -> Panel:
    """Mean weights of the source demonstrations against values of all of the run's demonstrations."""
    table = view.record.windows
    assert table is not None
    demos = view.source_demos
    means = table.episode_means(table.weight)
    rho = spearman(means[demos], values[demos])
    chosen = demos[thin(len(demos), MOST_DEMOS)]
    note = "too few demonstrations for a correlation" if rho is None else f"rank correlation {rho:+.2f}"
    marks = _grouped(view, chosen, values[chosen], means[chosen])
    return Panel(x, DEMO_WEIGHT, tuple(marks), view.title, note, view.library_place)


def _grouped(view: RunView, demos: NDArray[np.int64], x: Array, y: Array) -> list[Points]:
    """Points by domain, or by known flaw where there are any."""
    table = view.record.windows
    assert table is not None
    if view.flaws is not None:
        kinds = [view.flaws[demo] or "sound" for demo in demos]
        flaws = sorted({kind for kind in kinds if kind != "sound"})
        colours = {"sound": "good"} | {flaw: f"bad{i % 3}" for i, flaw in enumerate(flaws)}
    else:
        kinds = [table.domains[table.episode_domain[demo]] for demo in demos]
        colours = {kind: view.colour_of(kind) for kind in dict.fromkeys(kinds)}
    marks = []
    for kind, colour in colours.items():
        mine = np.array([k == kind for k in kinds], dtype=bool)
        if not mine.any():
            continue
        numbers_there = None if view.numbers is None else [int(view.numbers[d]) for d in demos[mine]]
        marks.append(Points(kind, colour, numbers(x[mine]), numbers(y[mine]), numbers_there))
    return marks


def spearman(a: Array, b: Array) -> float | None:
    """Rank correlation; None for fewer than four pairs or where one side does not vary."""
    from scipy.stats import spearmanr

    fine = np.isfinite(a) & np.isfinite(b)
    if fine.sum() < 4 or np.ptp(a[fine]) == 0 or np.ptp(b[fine]) == 0:
        return None
    return float(spearmanr(a[fine], b[fine]).statistic)


def area_under_curve(good: Array, bad: Array) -> float | None:
    """Probability that one of ``good`` exceeds one of ``bad``, ties counting half."""
    if not len(good) or not len(bad):
        return None
    above = (good[:, None] > bad[None]).mean() + 0.5 * (good[:, None] == bad[None]).mean()
    return float(above)


def variance_explained(values: Array, groups: NDArray[np.int64]) -> float | None:
    """Between-group share of the variance, η²."""
    total = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if total <= 1e-12 * max(len(values), 1):
        return None
    sizes = np.bincount(groups)
    sums = np.bincount(groups, weights=values)
    means = sums[sizes > 0] / sizes[sizes > 0]
    return float((sizes[sizes > 0] * (means - values.mean()) ** 2).sum() / total)


def _bins(phase: Array) -> NDArray[np.int64]:
    return np.minimum((phase * PHASES).astype(np.int64), PHASES - 1)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
