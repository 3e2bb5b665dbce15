"""The page's sections: text, tables and slots for figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beacon.report.bound import bound_table
from beacon.report.demonstration_pool import task_of
from beacon.report.figure_spec import Figure
from beacon.report.markup import Content, Markup, join, table, tag
from beacon.report.reproduce import evaluate_command
from beacon.report.rollouts import Rollout
from beacon.report.run_record import Missing
from beacon.report.run_view import RunView
from beacon.report.success import Setting, criterion_words


def figure_slot(figure: Figure) -> Markup:
    """Where the script draws a figure."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", figure.title), tag("p", figure.caption)),
        tag("div", class_="panels"),
        id=f"figure-{figure.key}",
        data_figure=figure.key,
        class_="single" if len(figure.panels) == 1 else None,
    )


def figure_grid(figures: Iterable[Figure]) -> Markup:
    """Figures one below the other; those of a single panel side by side."""
    return tag("div", [figure_slot(figure) for figure in figures if not figure.empty], class_="figures")


def section(
    key: str, title: str, *content: Content, missing: Iterable[tuple[str, Missing]] = (), intro: str = ""
) -> Markup:
    """A section with what it has to say and what it lacks."""
    notes = [missing_note(run, part) for run, part in missing]
    return tag(
        "section",
        tag("h2", title),
        tag("p", intro, class_="intro") if intro else None,
        content,
        notes,
        id=key,
    )


def missing_note(run: str, part: Missing) -> Markup:
    """One line that says what is missing, and the command that would make it."""
    return tag(
        "p",
        tag("strong", run),
        ": ",
        part.text,
        [" ", tag("code", part.command)] if part.command else None,
        class_="missing",
    )


def success_section(settings: list[Setting], figure: Figure, missing: list[tuple[str, Missing]]) -> Markup:
    """Rates, intervals, paired tests."""
    parts: list[Content] = []
    if settings:
        parts.append(figure_grid([figure]))
    for setting in settings:
        parts.append(tag("h3", setting.title))
        rows: list[list[Content]] = [
            [
                run_label(rate.view),
                criterion_words(rate.criterion),
                f"{rate.successes:g} of {rate.episodes}",
                f"{rate.rate:.1%}",
                f"{rate.low:.1%} to {rate.high:.1%}",
            ]
            for rate in setting.rates
        ]
        heads = ["Run", "Criterion", "Episodes", "Rate", "95% Wilson interval"]
        parts.append(table(heads, rows, numeric=(2, 3, 4)))
        if setting.comparisons:
            parts.append(_comparisons(setting))
        parts.append(tag("p", f"Initial states {setting.states[:12]}, the same for all rows.", class_="note"))
    return section("success", "Success", parts, missing=missing)


def _comparisons(setting: Setting) -> Markup:
    rows: list[list[Content]] = [
        [
            f"{pair.first.title} − {pair.second.title}",
            criterion_words(pair.criterion),
            f"{100 * pair.difference:+.1f}",
            f"{pair.only_first}",
            f"{pair.only_second}",
            f"{pair.p_value:.3g}",
            f"{pair.adjusted:.3g}",
            tag("span", "within noise", class_="noise")
            if pair.noise
            else tag("span", "unlikely to be noise", class_="signal"),
        ]
        for pair in setting.comparisons
    ]
    heads = [
        "Difference",
        "Criterion",
        "Points",
        "Only first",
        "Only second",
        "McNemar p",
        "Holm p",
        "Verdict at 5%",
    ]
    note = (
        "Paired by initial state: how many states only the first or only the second run solves, McNemar's "
        "exact two-sided p, and the same adjusted by Holm for the comparisons of a criterion. The test "
        "knows the noise of the evaluation, not that of training with another seed."
    )
    return join([table(heads, rows, numeric=(2, 3, 4, 5, 6)), tag("p", note, class_="note")])


def gallery_section(
    views: list[RunView], figures: list[Figure], missing: list[tuple[str, Missing]]
) -> Markup:
    """Filmstrips of the demonstrations at both ends; the script fills them in for the chosen run."""
    shown = [view for view in views if view.pool is not None]
    if not shown:
        return section("gallery", "Demonstrations", missing=missing)
    weighing = [view for view in shown if view.record.windows is not None and view.pool_numbers is not None]
    options = [(str(view.index), view.title) for view in (weighing or shown)]
    intro = (
        "The source demonstrations with the largest and the smallest mean weight, with the weight along "
        "time below their frames. Select one to look closer."
        if weighing
        else "No run of this report has weights; these are some of its demonstrations."
    )
    return section(
        "gallery",
        "Demonstrations with the largest and the smallest weights" if weighing else "Demonstrations",
        tag("div", choice("gallery-run", "Run", options), class_="controls"),
        tag("div", id="gallery-strips"),
        [tag("div", figure_slot(figure), data_run=figure.key.removeprefix("rank-")) for figure in figures],
        missing=missing,
        intro=intro,
    )


def bound_section(views: list[RunView]) -> Markup:
    """The bound's terms."""
    terms = bound_table(views)
    intro = (
        "The terms of the generalization bound that BEACON minimises, at the last weights. It holds only for "
        "weights near the target's own distribution; where it does not, no number is given for it."
    )
    lacking = tag("p", "No run of this report has weights with losses and a target.", class_="missing")
    return section("bound", "Bound diagnostics", terms or lacking, intro=intro)


def rollouts_section(
    rollouts: list[Rollout], views: list[RunView], missing: list[tuple[str, Missing]]
) -> Markup:
    """Filmstrips of filmed evaluation episodes."""
    if not rollouts:
        run = views[0].record
        example = evaluate_command(
            run.path, run.evaluations[0] if run.evaluations else None, task_of(views[0].pool)
        )
        missing = [
            *missing,
            (
                "Rollouts",
                Missing("rollouts", "No evaluation was filmed; for films run:", f"{example} --video"),
            ),
        ]
    strips = [
        tag(
            "div",
            tag(
                "p",
                tag("strong", "success" if film.success else "failure"),
                f" · {film.run} · {film.setting} · episode {film.name.rsplit('-', 1)[-1]}",
                class_="signal" if film.success else "noise",
            ),
            tag(
                "img",
                src=film.picture,
                alt=f"Frames of a {'successful' if film.success else 'failed'} rollout of {film.run}",
                loading="lazy",
            ),
            class_="rollout",
        )
        for film in rollouts
    ]
    return section("rollouts", "Rollouts", strips, missing=missing)


def choice(key: str, label: str, options: list[tuple[str, str]]) -> Markup:
    """A labelled list to choose from.

    Args:
        key: id of the element.
        label: words before it.
        options: value and text of each.
    """
    items = [tag("option", text, value=value) for value, text in options]
    return tag("label", label, " ", tag("select", items, id=key))


def run_label(view: RunView) -> Markup:
    """A run's title with a dot of its colour."""
    return join([tag("span", class_="dot", style=f"background:var(--{view.colour})"), view.title])


def plain(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "—"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
