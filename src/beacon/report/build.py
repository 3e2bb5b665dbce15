"""From run folders to one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path

from beacon import __version__
from beacon.errors import UserError
from beacon.files import write_bytes
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
from beacon.report.demonstration_pool import DemonstrationPool, find_pools, pool_numbers, task_of
from beacon.report.embedding_map import Mapper, Projection
from beacon.report.figure_spec import Figure
from beacon.report.markup import Markup, join, script_data, tag
from beacon.report.page_data import PoolAssets, figure_data, gallery, pool_data, run_data
from beacon.report.reproduce import evaluate_command
from beacon.report.rollouts import Rollout, collect_rollouts
from beacon.report.run_record import Missing, RunRecord, read_runs
from beacon.report.run_view import RunView
from beacon.runs.initial_states import InitialDistance
from beacon.training.config import DataOptions

SCRIPTS = ("core.js", "charts.js", "demonstrations.js", "map.js", "start.js")
MOST_RUNS = 24
Say = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """A page, and the figures on it."""

    html: str
    figures: list[Figure]
    views: list[RunView]
    assets: list[PoolAssets]


class ReportBuilder:
    """Builds the page of some runs; builds it again quickly when the runs have gone on."""

    def __init__(
        self,
        paths: list[Path],
        *,
        projection: Projection = "umap",
        live: bool = False,
        out: Path | None = None,
        say: Say | None = None,
    ) -> None:
        if not paths:
            raise UserError("name at least one run folder")
        if len(paths) > MOST_RUNS:
            raise UserError(f"{len(paths)} runs do not fit into one report; at most {MOST_RUNS} do")
        self.paths, self.live, self.out = paths, live, out
        self._mapper = Mapper(projection, cached_only=live)
        self._assets: dict[int, PoolAssets] = {}
        self._pools: dict[tuple[DataOptions | None, ...], list[DemonstrationPool | None]] = {}
        self._say: Say = say or (lambda _: None)

    def build(self) -> Report:
        """Read the runs as they are now and make the page."""
        self._say("reading the runs")
        records = read_runs(self.paths)
        views, assets = self._views(records)
        settings = success.collect_settings(views)
        for view in views:
            _note_missing(view)
        figures = _figures(views, settings)
        self._say("reading films")
        rollouts = collect_rollouts(views)
        html = self._page(views, assets, settings, figures, rollouts)
        return Report(html, [f for f in figures.values() if not f.empty], views, assets)

    def _views(self, records: list[RunRecord]) -> tuple[list[RunView], list[PoolAssets]]:
        self._say("reading the demonstrations")
        pools = self._find_pools(records)
        plain = []
        for index, (record, pool) in enumerate(zip(records, pools, strict=True)):
            plain.append(RunView(record, index, pool, None, pool_numbers(record, pool)))
        used = list({id(pool): pool for pool in pools if pool is not None}.values())
        assets = []
        for pool in used:
            if id(pool) not in self._assets:
                self._say("making filmstrips")
                members = [view for view in plain if view.pool is pool]
                ends = [demo for view in members for part in gallery(view).values() for demo in part]
                self._assets[id(pool)] = PoolAssets.make(pool, ends)
            assets.append(self._assets[id(pool)])
        views = []
        for view in plain:
            shown = next((i for i, pool in enumerate(used) if pool is view.pool), None)
            views.append(self._complete(view, shown, None if shown is None else assets[shown]))
        return views, assets

    def _complete(self, view: RunView, pool_index: int | None, assets: PoolAssets | None) -> RunView:
        """The view with initial distances and the map."""
        distance, embedding = None, None
        if assets is not None:
            if isinstance(assets.distance, InitialDistance):
                distance = assets.distance
            elif view.record.windows is not None:
                view.record.note(
                    "weight-analysis", f"Weight against initial distance is left out. {assets.distance}"
                )
            self._say(f"mapping embeddings of {view.name}")
            embedding = self._mapper(view.record, assets.pool, assets.demos, assets.times)
        return replace(view, pool_index=pool_index, distance=distance, map=embedding)

    def _find_pools(self, records: list[RunRecord]) -> list[DemonstrationPool | None]:
        """Read once: demonstrations do not change while a run goes on."""
        key = tuple(record.data for record in records)
        if key not in self._pools or None in self._pools[key]:
            self._pools[key] = find_pools(records)
        return self._pools[key]

    def _page(
        self,
        views: list[RunView],
        assets: list[PoolAssets],
        settings: list[success.Setting],
        figures: dict[str, Figure],
        rollouts: list[Rollout],
    ) -> str:
        body = _body(views, settings, figures, rollouts, self.out)
        data = {
            "figures": {key: figure_data(figure) for key, figure in figures.items() if not figure.empty},
            "pools": [pool_data(part) for part in assets],
            "runs": [
                run_data(view, None if view.pool_index is None else assets[view.pool_index]) for view in views
            ],
            "live": self.live,
        }
        names = ", ".join(view.name for view in views)
        made = f"beacon {__version__}, {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"
        connect = "'self'" if self.live else "'none'"
        replacements = {
            "TITLE": join(f"BEACON report: {names}"),
            "RUNS": join(names),
            "MADE": join(made),
            "CONNECT": Markup(connect),
            "CONTENTS": _contents(),
            "BODY": body,
            "STYLE": Markup(_file("style.css")),
            "DATA": script_data(data),
            "SCRIPT": Markup("\n".join(_file(name) for name in SCRIPTS)),
        }
        # Split once, so that nothing which is filled in is looked at for further places.
        pieces = _file("page.html").split("%%")
        return "".join(replacements[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def write_report(
    paths: list[Path],
    out: Path,
    *,
    figures: Path | None = None,
    projection: Projection = "umap",
    say: Say | None = None,
) -> Report:
    """Write the page of these runs to ``out``, and its figures as SVG and PDF to the folder ``figures``."""
    report = ReportBuilder(paths, projection=projection, out=out, say=say).build()
    write_bytes(out, report.html.encode())
    if figures is not None:
        from beacon.report.figure_files import write_figures

        if say is not None:
            say("drawing figures")
        write_figures(report, figures)
    return report


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


def _contents() -> Markup:
    return join([tag("a", title, href=f"#{key}") for key, title in SECTIONS.items()])


def _figures(views: list[RunView], settings: list[success.Setting]) -> dict[str, Figure]:
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


def _body(
    views: list[RunView],
    settings: list[success.Setting],
    figures: dict[str, Figure],
    rollouts: list[Rollout],
    out: Path | None,
) -> Markup:
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


def _note_missing(view: RunView) -> None:
    """What a reader would look for in vain, said where they would look."""
    record = view.record
    if not record.evaluations:
        command = evaluate_command(record.path, None, task_of(view.pool))
        record.note("success", "This run has no evaluation; run:", command)
    if record.train_config is None:
        record.note("gallery", "Without a configuration the demonstrations of this run are unknown.")
    if view.map is None and not any(part.section == "map" for part in record.missing):
        why = (
            "Without its demonstrations the run has no map." if view.pool is None else "No map was asked for."
        )
        record.note("map", why)


def _file(name: str) -> str:
    return (resources.files("beacon.report") / "page" / name).read_text(encoding="utf-8")
