"""What became of the weights: over time, at the end, by domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beacon.report.figure_spec import Axis, Bars, Figure, Panel, line, numbers
from beacon.report.run_view import RunView
from beacon.report.training_curves import STEPS
from beacon.runs.metrics import series

WEIGHT = Axis("weight q")
LEVELS = (0.1, 0.9)
BINS = 40


def evolution_figure(views: list[RunView]) -> Figure:
    """Mean weight of every domain over time, with quantiles of its demonstrations."""
    panels = []
    for view in views:
        history = view.record.episodes
        if history is None:
            continue
        marks = []
        for domain in history.domains:
            members = history.members(domain)
            weight = history.weight[:, members]  # (R, demonstrations)
            low, high = np.quantile(weight, LEVELS, axis=1)
            marks.append(
                line(
                    view.role_of(domain),
                    view.colour_of(domain),
                    history.step,
                    _window_means(view, domain, history.step, weight),
                    low,
                    high,
                )
            )
        panels.append(Panel(STEPS, WEIGHT, tuple(marks), title=view.title))
    return Figure(
        "weight-evolution",
        "Weights over time",
        "Lines: mean weight of a domain's windows after every refresh. Bands: the middle 80% of its "
        "demonstrations' mean weights.",
        tuple(panels),
    )


def _window_means(
    view: RunView, domain: str, steps: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Means over windows as the run logged them; over demonstrations where it did not."""
    logged = dict(zip(*series(view.record.metrics.refreshes, f"q/mean/{domain}"), strict=True))
    fallback = weight.mean(axis=1)
    return np.array([logged.get(float(s), mean) for s, mean in zip(steps, fallback, strict=True)])


def distribution_figure(views: list[RunView]) -> Figure:
    """Histograms of the windows' weights at the last checkpoint."""
    panels = []
    for view in views:
        table = view.record.windows
        if table is None:
            continue
        top = float(table.weight.max())
        edges = np.linspace(0, top if top > 0 else 1.0, BINS + 1)
        marks = []
        for domain in table.domains:
            weight = table.weight[table.members(domain)]
            share = np.histogram(weight, edges)[0] / len(weight)
            spread = weight.std() if weight.min() < weight.max() else 0.0  # no rounding of equal weights
            label = f"{view.role_of(domain)}: {weight.mean():.3g} ± {spread:.2g}"
            marks.append(Bars(label, view.colour_of(domain), numbers(edges), numbers(share)))
        y = Axis("share of the domain's windows", "%", percent=True)
        panels.append(Panel(WEIGHT, y, tuple(marks), title=view.title))
    return Figure(
        "weight-distribution",
        "Weights at the end",
        "Weights of all windows at the newest checkpoint, by domain; the legend gives mean ± standard "
        "deviation.",
        tuple(panels),
    )


def mass_figure(views: list[RunView]) -> Figure:
    """Each domain's share of the total weight, and the effective sample size."""
    panels = []
    sizes = []
    for view in views:
        refreshes = view.record.metrics.refreshes
        steps, mass = _mass(view)
        if len(steps):
            total = np.sum(list(mass.values()), axis=0)
            marks = tuple(
                line(view.role_of(domain), view.colour_of(domain), steps, values / total)
                for domain, values in mass.items()
            )
            y = Axis("share of the total weight", "%", limits=(0.0, 1.0), percent=True)
            panels.append(Panel(STEPS, y, marks, title=f"{view.title}: mass"))
        steps, values = series(refreshes, "q/effective_sample_size")
        if len(steps):
            sizes.append(line(view.title, view.colour, steps, values))
    if sizes:
        counts = {len(view.record.windows) for view in views if view.record.windows is not None}
        note = f"of {counts.pop():,} windows" if len(counts) == 1 else ""
        panels.append(
            Panel(STEPS, Axis("(Σq)² / Σq²", "windows"), tuple(sizes), "Effective sample size", note)
        )
    return Figure(
        "mass",
        "Mass and effective sample size",
        "How much of the total weight each domain holds, and with how many equally weighted windows the "
        "weighted loss would be as noisy.",
        tuple(panels),
    )


def _mass(view: RunView) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Steps at which the mass of every domain was logged, and each domain's mass at them."""
    logged = {domain: series(view.record.metrics.refreshes, f"mass/{domain}") for domain in view.domains}
    logged = {domain: curve for domain, curve in logged.items() if len(curve[0])}
    if not logged:
        return np.zeros(0), {}
    steps = set.intersection(*(set(steps.tolist()) for steps, _ in logged.values()))
    chosen = {domain: np.isin(curve[0], list(steps)) for domain, curve in logged.items()}
    return np.array(sorted(steps)), {domain: values[chosen[domain]] for domain, (_, values) in logged.items()}


def domain_weights_figure(views: list[RunView]) -> Figure:
    """The weight of every source over time, for runs with several."""
    panels = []
    for view in views:
        marks = []
        for domain in view.sources:
            steps, values = series(view.record.metrics.refreshes, f"domain_weight/{domain}")
            if len(steps):
                marks.append(line(domain, view.colour_of(domain), steps, values))
        if marks:
            y = Axis("domain weight w", limits=(0.0, 1.0))
            panels.append(Panel(STEPS, y, tuple(marks), title=view.title))
    return Figure(
        "domain-weights",
        "Domain weights",
        "Runs with several source domains learn a weight for each; they sum to one.",
        tuple(panels),
    )
