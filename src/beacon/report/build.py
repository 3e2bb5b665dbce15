"""From run folders to one page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path

from beacon import __version__
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.progress import tell
from beacon.report import success
from beacon.report.demonstration_pool import DemonstrationPool, find_pools, pool_numbers, task_of
from beacon.report.embedding_map import Mapper, Projection
from beacon.report.figure_spec import Figure
from beacon.report.markup import Markup, join, script_data, tag
from beacon.report.page_body import all_figures, body, contents
from beacon.report.page_data import PoolAssets, figure_data, gallery, pool_data, pool_pictures, run_data
from beacon.report.reproduce import evaluate_command
from beacon.report.rollouts import Rollout, collect_rollouts
from beacon.report.run_record import RunRecord, read_runs
from beacon.report.run_view import RunView
from beacon.runs.initial_states import InitialDistance
from beacon.training.config import DataOptions

SCRIPTS = ("core.js", "charts.js", "demonstrations.js", "map.js", "start.js")
MOST_RUNS = 24
LAZY_BYTES = 20_000_000  # a larger page draws its parts when they come near the screen


@dataclass(frozen=True)
class Report:
    """A page, and the figures on it."""

    html: str
    figures: list[Figure]
    views: list[RunView]
    assets: list[PoolAssets]
    settings: list[success.Setting]


class ReportBuilder:
    """Builds the page of some runs; builds it again quickly when the runs have gone on."""

    def __init__(
        self,
        paths: list[Path],
        *,
        projection: Projection = "pca",
        live: bool = False,
        out: Path | None = None,
    ) -> None:
        if not paths:
            raise UserError("name at least one run folder")
        if len(paths) > MOST_RUNS:
            raise UserError(f"{len(paths)} runs do not fit into one report; at most {MOST_RUNS} do")
        self.paths, self.live, self.out = paths, live, out
        self._mapper = Mapper(projection, cached_only=live)
        self._assets: dict[int, PoolAssets] = {}
        self._pools: dict[tuple[DataOptions | None, ...], list[DemonstrationPool | None]] = {}

    def build(self) -> Report:
        """Read the runs as they are now and make the page."""
        self._tell("reading the runs", 0)
        records = read_runs(self.paths)
        views, assets = self._views(records)
        settings = success.collect_settings(views)
        for view in views:
            _note_missing(view)
        figures = all_figures(views, settings)
        self._tell("reading films", len(views) + 3)
        rollouts = collect_rollouts(views)
        html = self._page(views, assets, settings, figures, rollouts)
        return Report(html, [f for f in figures.values() if not f.empty], views, assets, settings)

    def _views(self, records: list[RunRecord]) -> tuple[list[RunView], list[PoolAssets]]:
        self._tell("reading the demonstrations", 1)
        pools = self._find_pools(records)
        plain = []
        for index, (record, pool) in enumerate(zip(records, pools, strict=True)):
            plain.append(RunView(record, index, pool, None, pool_numbers(record, pool)))
        used = list({id(pool): pool for pool in pools if pool is not None}.values())
        assets = []
        for pool in used:
            if id(pool) not in self._assets:
                self._tell("making filmstrips", 2)
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
            self._tell(f"mapping embeddings of {view.name}", view.index + 3)
            embedding = self._mapper(view.record, assets.pool, assets.demos, assets.times)
        return replace(view, pool_index=pool_index, distance=distance, map=embedding)

    def _tell(self, what: str, done: int) -> None:
        """A step for the runs, the demonstrations, filmstrips and films each, and one for every map."""
        tell(f"report: {what}", done, len(self.paths) + 4)

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
        sections = body(views, settings, figures, rollouts, self.out)
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
        pictures = [
            tag("script", script_data(content), type="application/json", id=f"{kind}-{number}")
            for number, part in enumerate(assets)
            for kind, content in pool_pictures(part).items()
        ]
        replacements = {
            "TITLE": join(f"BEACON report: {names}"),
            "RUNS": join(names),
            "MADE": join(made),
            "CONNECT": Markup(connect),
            "CONTENTS": contents(),
            "BODY": sections,
            "STYLE": Markup(_file("style.css")),
            "PICTURES": join(pictures),
            "DATA": script_data(data),
            "SCRIPT": Markup("\n".join(_file(name) for name in SCRIPTS)),
        }
        size = sum(len(part) for part in replacements.values())
        replacements["LAZY"] = Markup(' data-lazy="yes"' if size > LAZY_BYTES else "")
        # Split once, so that nothing which is filled in is looked at for further places.
        pieces = _file("page.html").split("%%")
        return "".join(replacements[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def write_report(
    paths: list[Path],
    out: Path,
    *,
    figures: Path | None = None,
    projection: Projection = "pca",
    numbers: Path | None = None,
) -> Report:
    """Write the page of some runs.

    Args:
        paths: the run folders, baselines first.
        out: the page.
        figures: folder for its figures as SVG and PDF.
        projection: how embeddings are laid out in the plane.
        numbers: file for what the page says as JSON.
    """
    report = ReportBuilder(paths, projection=projection, out=out).build()
    write_bytes(out, report.html.encode())
    if numbers is not None:
        from beacon.report.numbers import write_numbers

        write_numbers(report, numbers)
    if figures is not None:
        from beacon.report.figure_files import write_figures

        write_figures(report, figures)
    return report


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
