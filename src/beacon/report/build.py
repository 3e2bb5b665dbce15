"""From run folders to one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path

from beacon import __version__
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.report import configuration, glance, learning, origins, sections, success, weights
from beacon.report.embedding import Mapper, Projection
from beacon.report.library import Library, find_libraries, run_numbers, task_of
from beacon.report.markup import Markup, join, script_data, tag
from beacon.report.payload import LibraryAssets, figure_payload, gallery, library_payload, run_payload
from beacon.report.placements import InitialDistance
from beacon.report.records import Missing, RunRecord, read_runs
from beacon.report.reproduce import evaluate_command
from beacon.report.rollouts import Rollout, collect_rollouts
from beacon.report.spec import Figure
from beacon.report.views import RunView
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
    assets: list[LibraryAssets]


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
        self._assets: dict[int, LibraryAssets] = {}
        self._libraries: dict[tuple[DataOptions | None, ...], list[Library | None]] = {}
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

    def _views(self, records: list[RunRecord]) -> tuple[list[RunView], list[LibraryAssets]]:
        self._say("reading the demonstrations")
        libraries = self._find_libraries(records)
        plain = []
        for place, (record, library) in enumerate(zip(records, libraries, strict=True)):
            plain.append(RunView(record, place, library, None, run_numbers(record, library)))
        used = list({id(library): library for library in libraries if library is not None}.values())
        assets = []
        for library in used:
            if id(library) not in self._assets:
                self._say("making filmstrips")
                mine = [view for view in plain if view.library is library]
                ends = [demo for view in mine for part in gallery(view).values() for demo in part]
                self._assets[id(library)] = LibraryAssets.make(library, ends)
            assets.append(self._assets[id(library)])
        views = []
        for view in plain:
            home = next((i for i, library in enumerate(used) if library is view.library), None)
            views.append(self._complete(view, home, None if home is None else assets[home]))
        return views, assets

    def _complete(self, view: RunView, place: int | None, assets: LibraryAssets | None) -> RunView:
        """The view with initial distances and the map."""
        distance, embedding = None, None
        if assets is not None:
            if isinstance(assets.distance, InitialDistance):
                distance = assets.distance
            elif view.record.windows is not None:
                view.record.note("origins", f"Weight against initial distance is left out. {assets.distance}")
            self._say(f"mapping embeddings of {view.name}")
            embedding = self._mapper(view.record, assets.library, assets.demos, assets.times)
        return RunView(view.record, view.place, view.library, place, view.numbers, distance, embedding)

    def _find_libraries(self, records: list[RunRecord]) -> list[Library | None]:
        """Read once: demonstrations do not change while a run goes on."""
        key = tuple(record.data for record in records)
        if key not in self._libraries or None in self._libraries[key]:
            self._libraries[key] = find_libraries(records)
        return self._libraries[key]

    def _page(
        self,
        views: list[RunView],
        assets: list[LibraryAssets],
        settings: list[success.Setting],
        figures: dict[str, Figure],
        rollouts: list[Rollout],
    ) -> str:
        body = _body(views, settings, figures, rollouts, self.out)
        data = {
            "figures": {key: figure_payload(figure) for key, figure in figures.items() if not figure.empty},
            "libraries": [library_payload(part) for part in assets],
            "runs": [
                run_payload(view, None if view.library_place is None else assets[view.library_place])
                for view in views
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
    "glance": "At a glance",
    "success": "Success",
    "learning": "Learning",
    "weights": "Weights",
    "origins": "Where weights come from",
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
        learning.learning_figure(views),
        learning.objective_figure(views),
        weights.evolution_figure(views),
        weights.distribution_figure(views),
        weights.mass_figure(views),
        weights.domain_weights_figure(views),
        origins.phase_figure(views),
        origins.coverage_figure(views),
        origins.cause_figure(views),
        origins.flaws_figure(views),
        *(origins.rank_figure(view) for view in views if view.record.windows is not None),
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

    def places(*keys: str) -> Markup:
        return sections.figure_grid(figures[key] for key in keys)

    ranks = [figure for key, figure in figures.items() if key.startswith("rank-") and not figure.empty]
    return join(
        [
            glance.glance_section(views, settings),
            sections.success_section(settings, figures["success"], lacking("success")),
            sections.section(
                "learning", "Learning", places("learning", "objective"), missing=lacking("learning")
            ),
            sections.section(
                "weights",
                "Weights",
                _weightless(views),
                places("weight-evolution", "weight-distribution", "mass", "domain-weights"),
                missing=lacking("weights"),
            ),
            sections.section(
                "origins",
                "Where the weights come from",
                places("flaws", "coverage", "causes", "phase"),
                missing=lacking("origins"),
            ),
            sections.map_section(views, lacking("map")),
            sections.gallery_section(views, ranks, lacking("gallery")),
            sections.bound_section(views),
            sections.rollouts_section(rollouts, views, lacking("rollouts")),
            configuration.configuration_section(views, lacking("configuration"), out),
        ]
    )


def _weightless(views: list[RunView]) -> Markup | None:
    """Names the runs that the sections about weights pass over because their method has none."""
    names = [view.title for view in views if not view.record.weighs and not view.record.refreshes]
    if not names:
        return None
    return tag(
        "p", f"Without weights of their own, and so not in this part: {', '.join(names)}.", class_="note"
    )


def _note_missing(view: RunView) -> None:
    """What a reader would look for in vain, said where they would look."""
    record = view.record
    if not record.evaluations:
        command = evaluate_command(record.path, None, task_of(view.library))
        record.note("success", "This run has no evaluation; run:", command)
    if record.train_config is None:
        record.note("gallery", "Without a configuration the demonstrations of this run are unknown.")
    if view.map is None and not any(part.section == "map" for part in record.missing):
        why = (
            "Without its demonstrations the run has no map."
            if view.library is None
            else "No map was asked for."
        )
        record.note("map", why)


def _file(name: str) -> str:
    return (resources.files("beacon.report") / "page" / name).read_text(encoding="utf-8")
