"""What is on the page: its sections, and the figures in them."""

from __future__ import annotations

from pathlib import Path

from beacon.report import (
    configuration,
    map_section,
    sections,
    success,
    summary,
    training_curves,
    weight_analysis,
    weight_figures,
)
from beacon.report.figure_spec import Figure
from beacon.report.markup import Markup, join, tag
from beacon.report.rollouts import Rollout
from beacon.report.run_record import Missing
from beacon.report.run_view import RunView

SECTIONS = {
    "summary": "Summary",
    "success": "Success",
    "training": "Training",
    "weights": "Weights",
    "weight-analysis": "What the weights follow",
    "map": "Embedding map",
    "gallery": "Demonstrations",
    "bound": "Bound",
    "rollouts": "Rollouts",
    "configuration": "Configuration",
}


def contents() -> Markup:
    """Links to the sections."""
    return join([tag("a", title, href=f"#{key}") for key, title in SECTIONS.items()])


def all_figures(views: list[RunView], settings: list[success.Setting]) -> dict[str, Figure]:
    """Every figure of the page by its key; some may be empty.

    Args:
        views: the runs.
        settings: their evaluations.
    """
    made = [
        success.success_figure(settings),
        training_curves.learning_figure(views),
        training_curves.early_looks_figure(views),
        training_curves.objective_figure(views),
        weight_figures.evolution_figure(views),
        weight_figures.distribution_figure(views),
        weight_figures.mass_figure(views),
        weight_figures.domain_weights_figure(views),
        weight_analysis.phase_figure(views),
        weight_analysis.coverage_figure(views),
        weight_analysis.cause_figure(views),
        weight_analysis.corruption_figure(views),
        *(weight_analysis.rank_figure(view) for view in views if view.record.windows is not None),
    ]
    return {figure.key: figure for figure in made}


def body(
    views: list[RunView],
    settings: list[success.Setting],
    figures: dict[str, Figure],
    rollouts: list[Rollout],
    out: Path | None,
) -> Markup:
    """All sections.

    Args:
        views: the runs.
        settings: their evaluations.
        figures: of `all_figures`.
        rollouts: filmed episodes.
        out: where the page will be, for the commands that make it again.
    """
    missing = [(view.title, part) for view in views for part in view.record.missing]

    def lacking(*keys: str) -> list[tuple[str, Missing]]:
        return [(run, part) for run, part in missing if part.section in keys]

    def figure_grid(*keys: str) -> Markup:
        return sections.figure_grid(figures[key] for key in keys)

    ranks = [figure for key, figure in figures.items() if key.startswith("rank-") and not figure.empty]
    return join(
        [
            summary.summary_section(views, settings),
            sections.success_section(settings, figures["success"], lacking("success")),
            sections.section(
                "training",
                "Training",
                figure_grid("early-looks", "learning", "objective"),
                missing=lacking("training"),
            ),
            sections.section(
                "weights",
                "Weights",
                _weightless(views),
                figure_grid("weight-evolution", "weight-distribution", "mass", "domain-weights"),
                missing=lacking("weights"),
            ),
            sections.section(
                "weight-analysis",
                "What the weights follow",
                figure_grid("corruption", "coverage", "causes", "phase"),
                missing=lacking("weight-analysis"),
            ),
            map_section.map_section(views, lacking("map")),
            sections.gallery_section(views, ranks, lacking("gallery")),
            sections.bound_section(views),
            sections.rollouts_section(rollouts, views, lacking("rollouts")),
            configuration.configuration_section(views, lacking("configuration"), out),
        ]
    )


def _weightless(views: list[RunView]) -> Markup | None:
    """Names the runs that the sections about weights pass over because their method has none."""
    names = [view.title for view in views if not view.record.weighs and not view.record.metrics.refreshes]
    if not names:
        return None
    return tag(
        "p", f"Without weights of their own, and so not in this part: {', '.join(names)}.", class_="note"
    )
