"""The first section: what the report says, in sentences and a few numbers."""

from __future__ import annotations

from beacon.analysis import WeightBias, effective_sample_size
from beacon.data.errors import listing
from beacon.report.markup import Content, Markup, tag
from beacon.report.run_view import RunView
from beacon.report.success import Setting
from beacon.report.weight_analysis import view_bias

STRONG, MODERATE = 0.5, 0.25


def summary_section(views: list[RunView], settings: list[Setting]) -> Markup:
    """Cards: one for the comparison, one for every run with weights."""
    cards: list[Content] = [_success_card(setting) for setting in settings[:2]]
    cards += [_weights_card(view) for view in views if view.record.windows is not None]
    if not cards:
        text = "There is nothing to compare yet: no evaluation, and no weights of windows."
        cards.append(tag("div", tag("p", text), class_="card"))
    decided = [_decisions_line(view) for view in views]
    return tag("section", tag("h2", "Summary"), tag("div", cards, class_="cards"), decided, id="summary")


def _decisions_line(view: RunView) -> Markup | None:
    """What people had decided about the demonstrations of a run."""
    data = view.record.data
    if data is None or not data.decisions:
        return None
    parts = []
    for entry in data.decisions:
        if entry.dropped:
            parts.append(f"left out of {entry.dataset}: {listing(entry.dropped)}")
        if entry.kept:
            least = f"at least {data.kept_floor:g} times the mean weight of their domain"
            parts.append(f"kept of {entry.dataset}, with {least}: {listing(entry.kept)}")
    text = f": by decision, {'; '.join(parts)}."
    return tag("p", tag("strong", view.title), text, class_="decisions")


def _success_card(setting: Setting) -> Markup:
    criterion = setting.criteria[0]
    rates = [rate for rate in setting.rates if rate.criterion == criterion]
    lines: list[Content] = [
        tag(
            "div",
            tag("span", rate.view.title, class_="label"),
            tag("span", f"{rate.rate:.0%}", class_="big", style=f"color:var(--{rate.view.colour})"),
            tag("span", f"{rate.low:.0%}–{rate.high:.0%}", class_="note"),
            class_="score",
        )
        for rate in rates
    ]
    pairs = [pair for pair in setting.comparisons if pair.criterion == criterion]
    return tag(
        "div",
        tag("h3", setting.title),
        tag("div", lines, class_="scores"),
        tag("p", verdict(setting)) if pairs else None,
        class_="card wide",
    )


def verdict(setting: Setting) -> str:
    """One sentence on what the paired tests say of the first criterion."""
    pairs = [pair for pair in setting.comparisons if pair.criterion == setting.criteria[0]]
    clear = [pair for pair in pairs if not pair.noise]
    if not clear:
        return (
            "Every difference here is within noise: the paired tests would see as much by chance."
            if len(pairs) > 1
            else "The difference is within noise: the paired test would see as much by chance."
        )
    parts = []
    for pair in clear:
        better, worse = (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
        parts.append(f"{better.title} over {worse.title} by {abs(100 * pair.difference):.0f} points")
    said = f"Unlikely to be noise: {'; '.join(parts)} (p < 0.05 after Holm)."
    rest = len(pairs) - len(clear)
    if rest:
        said += f" The other {'difference is' if rest == 1 else f'{rest} differences are'} within noise."
    return said


def _weights_card(view: RunView) -> Markup:
    table = view.record.windows
    assert table is not None
    rows = view.source_windows
    source, everything = table.weight[rows], table.weight
    size = effective_sample_size(everything)
    facts: list[Content] = [
        _fact("Source share of the weight", f"{source.sum() / max(everything.sum(), 1e-300):.0%}"),
        _fact("Effective sample size", f"{size:,.0f} of {len(everything):,} windows"),
    ]
    if rows.any() and not rows.all():
        facts.append(
            _fact("Mean weight, target and source", f"{everything[~rows].mean():.2f} and {source.mean():.2f}")
        )
    bias = view_bias(view)
    return tag(
        "div",
        tag("h3", view.title),
        tag("div", facts, class_="facts"),
        _meters(bias),
        class_="card",
    )


def _meters(bias: WeightBias) -> list[Content]:
    """Both biases as bars, and the known corruption that was found."""
    meters: list[Content] = []
    if bias.phase is not None:
        detail = f"{bias.phase:.0%} of the source weights' variance"
        if bias.first_tenth is not None and bias.last_tenth is not None:
            detail += f"; mean {bias.first_tenth:.2f} in the first tenth, {bias.last_tenth:.2f} in the last"
        meters.append(_meter("Phase bias", bias.phase, detail))
    if bias.coverage is not None:
        detail = (
            f"rank correlation {bias.coverage:+.2f} with the distance to the nearest target demonstration"
        )
        meters.append(_meter("Coverage bias", max(0.0, -bias.coverage), detail))
    if bias.corruption_auc is not None:
        pairs = f"{bias.corruption_auc:.0%} of pairs"
        detail = f"a sound demonstration outweighs a corrupted one in {pairs}; 50% is chance"
        meters.append(_meter("Known corruption found", bias.corruption_auc, detail, judged=False))
    return meters


def _meter(label: str, value: float, detail: str, *, judged: bool = True) -> Markup:
    word = "strong" if value >= STRONG else "moderate" if value >= MODERATE else "weak"
    width = f"width:{100 * min(max(value, 0.0), 1.0):.0f}%"
    bar = tag("div", tag("div", style=width, class_=f"fill {word if judged else 'plain'}"), class_="bar")
    return tag(
        "div",
        tag("p", tag("strong", label), f", {word}: " if judged else ": ", detail, class_="meter-text"),
        bar,
        class_="meter",
    )


def _fact(label: str, value: str) -> Markup:
    return tag("div", tag("span", label, class_="label"), tag("span", value, class_="value"), class_="fact")
