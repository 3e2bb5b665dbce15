"""How the policy learned: losses over time, and every term of the objective."""

from __future__ import annotations

from beacon.report.figure_spec import Axis, Figure, Line, Panel, line
from beacon.report.run_view import RunView
from beacon.runs.metrics import Entry, series

STEPS = Axis("gradient steps")
RATE = ("success", "low", "high")  # of an early look
TERMS = {
    "total": "objective",
    "loss": "weighted loss, Σ qᵢ ℓᵢ",
    "discrepancy": "discrepancy, λ_d Σ qᵢ dᵢ",
    "capacity": "capacity, γ ‖q‖_∞ R(θ)",
    "l1": "distance to reference, λ₁ ‖q − p₀‖₁",
    "l2": "concentration, λ₂ ‖q‖²",
    "domain_l1": "domain weights, ρ₁ ‖w − w₀‖₁",
    "domain_l2": "domain weights, ρ₂ ‖w‖²",
}


def learning_figure(views: list[RunView]) -> Figure:
    """Losses of target, source and held-out windows over the gradient steps."""
    target: list[Line] = []
    source: list[Line] = []
    held_out: list[Line] = []
    minimised: list[Line] = []
    for view in views:
        record = view.record
        for domain in view.domains:
            steps, values = series(record.metrics.train, f"loss/{domain}")
            if not len(steps):
                continue
            if domain == view.target:
                target.append(line(view.title, view.colour, steps, values))
            else:
                name = view.title if len(view.sources) == 1 else f"{view.title}: {domain}"
                second = view.sources.index(domain) % 2 == 1
                source.append(line(name, view.colour, steps, values, dashed=second))
        for entries, into in ((record.metrics.validation, held_out), (record.metrics.train, minimised)):
            steps, values = series(entries, "loss")
            if len(steps):
                into.append(line(view.title, view.colour, steps, values))
    loss = Axis("denoising loss", "MSE", log=True)
    panels = [
        Panel(STEPS, axis, tuple(lines), title=title)
        for title, lines, axis in (
            ("Target windows", target, loss),
            ("Source windows", source, loss),
            ("Held-out target windows", held_out, loss),
            ("What each method minimises", minimised, Axis("mini-batch loss", log=True)),
        )
        if lines
    ]
    return Figure(
        "learning",
        "Learning curves",
        "Loss of the training mini-batches, not weighted, by domain; weights make what the methods minimise "
        "differ in scale, so the last panel compares a run with itself only. A low loss is not success: "
        "see the success rates.",
        tuple(panels),
    )


def early_looks_figure(views: list[RunView]) -> Figure:
    """Success rates that ``beacon train --evaluate-every`` saw on the way, one panel a setting."""
    panels: dict[str, list[Line]] = {}
    for view in views:
        by_setting: dict[str, list[Entry]] = {}
        for entry in view.record.metrics.evaluations:
            by_setting.setdefault(_setting(entry), []).append(entry)
        for setting, entries in by_setting.items():
            usable = [entry for entry in entries if all(len(series([entry], key)[0]) for key in RATE)]
            if usable:
                steps = series(usable, RATE[0])[0]
                rate, low, high = (series(usable, key)[1] for key in RATE)
                curve = line(view.title, view.colour, steps, rate, low, high)
                panels.setdefault(setting, []).append(curve)
    share = Axis("success", limits=(0, 1), percent=True)
    return Figure(
        "early-looks",
        "Early looks at success",
        "Success rates of checkpoints while the run went on, with 95% Wilson intervals: few episodes from "
        "initial states that the success rates above do not have.",
        tuple(Panel(STEPS, share, tuple(lines), title=setting) for setting, lines in panels.items()),
    )


def _setting(entry: Entry) -> str:
    task, size, domain, region, episodes = (
        str(entry.get(key, "?")) for key in ("task", "size", "domain", "region", "episodes")
    )
    return f"{task} {size}, {domain}, {region} region, {episodes} episodes"


def objective_figure(views: list[RunView]) -> Figure:
    """One panel a term."""
    panels = []
    for term, title in TERMS.items():
        lines: list[Line] = []
        for view in views:
            steps, values = series(view.record.metrics.refreshes, f"objective/{term}")
            if len(steps) and (values != 0).any():
                lines.append(line(view.title, view.colour, steps, values))
        if lines:
            panels.append(Panel(STEPS, Axis("value at the refresh"), tuple(lines), title=title))
    return Figure(
        "objective",
        "Every term of the objective",
        "BEACON's objective after each refresh of the weights, term by term. Terms that stay zero are left "
        "out.",
        tuple(panels),
    )
