"""Figures of what the weights follow: phase, coverage, discrepancy, loss, known corruption."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import WeightBias, area_under_curve, spearman, variance_explained, weight_bias
from beacon.analysis.association import PHASES, phase_bins
from beacon.report.figure_spec import Axis, Bars, Figure, Line, Panel, Points, line, numbers, thin
from beacon.report.run_view import RunView

Array = NDArray[np.float64]
MOST_DEMOS = 1200  # points of a scatter
PHASE = Axis("phase of the demonstration", "%", limits=(0.0, 1.0), percent=True)
DEMO_WEIGHT = Axis("mean weight of a demonstration")
SOUND = "sound"  # label and colour of demonstrations that are not known to be corrupted


def view_bias(view: RunView) -> WeightBias:
    """How much a run's weights follow phase and coverage, and how well they find known corruption.

    Args:
        view: a run; without weights of windows nothing is known.
    """
    table = view.record.windows
    if table is None:
        return WeightBias()
    rows, demos = view.source_windows, view.source_demos
    distance = corruption = None
    if view.distance is not None and view.pool_numbers is not None:
        distance = view.distance.values[view.pool_numbers[demos]]
    if view.corruption is not None:
        corruption = [view.corruption[demo] for demo in demos]
    return weight_bias(
        table.weight[rows],
        table.phase[rows],
        table.episode_means(table.weight)[demos],
        distance=distance,
        corruption=corruption,
    )


def phase_figure(views: list[RunView]) -> Figure:
    """Weight, loss and discrepancy along the demonstrations."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None:
            continue
        rows = view.source_windows
        explained = variance_explained(table.weight[rows], phase_bins(table.phase[rows]))
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
    for domain in table.domains:
        if domain == view.target and not with_target:
            continue
        rows = table.members(domain)
        bins, of_domain = phase_bins(table.phase[rows]), values[rows]
        filled = [b for b in range(PHASES) if (bins == b).any()]
        groups = [of_domain[bins == b] for b in filled]
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
        if view.record.windows is None or view.distance is None or view.pool_numbers is None:
            continue
        what = view.distance.what
        values = view.distance.values[view.pool_numbers]
        x = Axis("distance to the nearest target demonstration", view.distance.unit)
        panels.append(_scatter(view, values, x))
    return Figure(
        "coverage",
        "Coverage",
        f"Every point is a source demonstration, by its {what} at the start. A strong negative correlation "
        "means that weights are low where the target has no demonstrations, which is where the source is "
        "needed.",
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


def corruption_figure(views: list[RunView]) -> Figure:
    """Weights of sound and corrupted demonstrations, where the dataset says which are which."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None or view.corruption is None:
            continue
        demos = view.source_demos
        means = table.episode_means(table.weight)[demos]
        labels = np.array([view.corruption[demo] or SOUND for demo in demos])
        edges = np.linspace(0, max(float(means.max()), 1e-9), 25)
        marks = []
        notes = []
        for number, label in enumerate(sorted(set(labels.tolist()), key=lambda name: (name != SOUND, name))):
            members = means[labels == label]
            share = np.histogram(members, edges)[0] / len(members)
            colour = SOUND if label == SOUND else f"corrupt{(number - 1) % 3}"
            legend = f"{label}: {len(members)} demonstrations, mean {members.mean():.3g}"
            marks.append(Bars(legend, colour, numbers(edges), numbers(share)))
            if label != SOUND:
                area = area_under_curve(means[labels == SOUND], members)
                notes.append("" if area is None else f"AUC {label} {area:.2f}")
        y = Axis("share of the group", "%", percent=True)
        panels.append(Panel(DEMO_WEIGHT, y, tuple(marks), view.title, "; ".join(filter(None, notes))))
    return Figure(
        "corruption",
        "Known corruption",
        "Source demonstrations that were corrupted on purpose, and the sound ones; no method is told which. "
        "AUC: how often a sound demonstration outweighs a corrupted one; 0.5 is chance.",
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
        pool=view.pool_index,
    )
    return Figure(
        f"rank-{view.index}",
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
    return Panel(x, DEMO_WEIGHT, tuple(marks), view.title, note, view.pool_index)


def _grouped(view: RunView, demos: NDArray[np.int64], x: Array, y: Array) -> list[Points]:
    """Points by domain, or by known corruption where there is any."""
    table = view.record.windows
    assert table is not None
    if view.corruption is not None:
        labels = [view.corruption[demo] or SOUND for demo in demos]
        corrupted = sorted({label for label in labels if label != SOUND})
        colours = {SOUND: SOUND} | {label: f"corrupt{i % 3}" for i, label in enumerate(corrupted)}
    else:
        labels = [table.domains[table.episode_domain[demo]] for demo in demos]
        colours = {domain: view.colour_of(domain) for domain in dict.fromkeys(labels)}
    marks = []
    for label, colour in colours.items():
        members = np.array([other == label for other in labels], dtype=bool)
        if not members.any():
            continue
        selectable = None
        if view.pool_numbers is not None:
            selectable = [int(view.pool_numbers[demo]) for demo in demos[members]]
        marks.append(Points(label, colour, numbers(x[members]), numbers(y[members]), selectable))
    return marks
