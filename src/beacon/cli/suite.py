"""``beacon suite``: the paper's experiments, and ours, as grids of runs."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.processes import Workers
    from beacon.suites.grids import Choice, Place, Suite
    from beacon.suites.results import Folders
    from beacon.suites.scales import Scale
    from beacon.suites.tables import ResultStore

USAGE = """\
usage: beacon suite run|list|table NAME [options]

Reproduce the paper's experiments as grids of runs, on one GPU or, scaled down, on two cores.

  run     do all cells of a suite that are not done; interrupt it when you like, the same command goes on
  list    what is done, running and missing, and how long the rest will take
  table   success rates with intervals, beside the paper's

examples:
  beacon suite list                                       the suites, and how far they are
  beacon suite run sim2sim --tasks stack --gaps texture   one column of the first table, on two cores
  beacon suite run sim2sim --preset paper                 the whole table at the paper's sizes, on a GPU
  beacon suite table sim2sim                              what came of it
  beacon suite run --help                                 every option

exit codes: 0 done, 1 failed, 2 the input is wrong"""

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class Selection:
    """What all three take."""

    # Sizes: "cpu" for two cores, "cpu-4x" and "cpu-16x" with 4 and 16 times the steps, "paper" for one GPU,
    # "tiny" to see that everything works.
    preset: str = "cpu"
    # Seeds of the runs, each with target demonstrations of its own.
    seeds: tuple[int, ...] = (0, 1, 2)
    # Only these rows, for example beacon cotrain-natural; rows named here need not be in the usual grid.
    methods: tuple[str, ...] = ()
    # Only these tasks.
    tasks: tuple[str, ...] = ()
    # Only these gaps.
    gaps: tuple[str, ...] = ()
    # Folder of the results, one small JSON file a cell.
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    # Folder of demonstrations and runs, which are large.
    work: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/suites")

    def __post_init__(self) -> None:
        if not self.seeds:
            raise UserError("--seeds: name at least one")
        if min(self.seeds) < 0:
            raise UserError(f"--seeds {min(self.seeds)}: must be at least 0")

    def said(self, *names: str) -> str:
        """Those of these options that are not the defaults, as words of a command."""
        usual = Selection()
        words = []
        for name in names:
            value = getattr(self, name)
            if value != getattr(usual, name):
                several = value if isinstance(value, tuple) else (value,)
                words += [f"--{name}", *(shlex.quote(str(one)) for one in several)]
        return "".join(f" {word}" for word in words)

    def choice(self) -> Choice:
        """Which part of the suite."""
        from beacon.suites.grids import Choice

        return Choice(tuple(dict.fromkeys(self.seeds)), self.methods, self.tasks, self.gaps)

    def folders(self) -> Folders:
        """Where things are."""
        from beacon.suites.results import Folders

        return Folders(self.work, self.results)


@dataclass(frozen=True)
class Run:
    """Do all cells of a suite that are not done, several side by side.

    For example:  beacon suite run sim2sim --tasks stack --workers 2

    A cell is one run with its evaluations. What is done is never done again, in whatever suite it appears;
    an interrupted cell goes on in the middle of its training; two commands on one folder share the work.
    """

    # Suite, for example sim2sim; see beacon suite list.
    name: Name
    selection: Annotated[Selection, tyro.conf.arg(name="")]
    # Cells side by side, each on one thread; default: 2 for cpu, 1 for paper.
    workers: int | None = None
    # Where to compute: "auto" takes a GPU when there is one.
    device: str = "auto"
    # Let the Ray cluster that RAY_ADDRESS names do the cells; its nodes must share both folders.
    ray: bool = False
    # Only say what would be done.
    dry_run: bool = False

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class Listing:
    """Show what is done, running and missing, and how long the rest will take.

    For example:  beacon suite list sim2sim --seeds 0
    """

    # Suite; without one, all suites in a line each.
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")]
    selection: Annotated[Selection, tyro.conf.arg(name="")]
    # Cells side by side, for the estimate of the time.
    workers: int | None = None

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class Table:
    """Show success rates with intervals and paired tests, seeds pooled, beside the paper's.

    For example:  beacon suite table sim2sim --tasks stack

    With --docs, write the page of all results and its figures instead.
    """

    # Suite, for example sim2sim.
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")]
    selection: Annotated[Selection, tyro.conf.arg(name="")]
    # Print JSON.
    json: bool = False
    # Print Markdown.
    markdown: bool = False
    # Write results.md and pictures/results/ of all suites into this folder.
    docs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None


def _check_workers(workers: int | None) -> None:
    if workers is not None and workers < 1:
        raise UserError(f"--workers {workers}: must be at least 1")


def main(arguments: list[str]) -> int:
    """Run the verb."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    command, *rest = arguments
    commands = {"run": _run, "list": _list, "table": _table}
    if command not in commands:
        raise UserError(f"there is no 'beacon suite {command}'; there are run, list and table")
    try:
        return commands[command](rest)
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0


def _parse(kind: Any, arguments: list[str], command: str, default: Any) -> Any:
    described = inspect.cleandoc(str(kind.__doc__))
    return parsing.parse(
        kind, arguments, prog=f"beacon suite {command}", description=described, default=default
    )


def _run(arguments: list[str]) -> int:
    options: Run = _parse(Run, arguments, "run", Run(tyro.MISSING, Selection()))
    from beacon.suites.grids import find_suite
    from beacon.suites.scales import find_scale

    suite, scale = find_suite(options.name), find_scale(options.selection.preset)
    if options.dry_run:
        _planned(options.name, options.selection)
        return _show(options.name, options.selection, options.workers)
    threads = 1 if scale.preset == "cpu" else None
    if options.ray:
        from beacon.suites.cluster import RayTasks

        with RayTasks(options.workers, threads, gpus=0.0 if scale.preset == "cpu" else 1.0) as tasks:
            return _do(options, suite, scale, tasks, tasks.count, threads)
    from beacon.processes import Processes

    count = options.workers or scale.workers
    with Processes(count, threads) as processes:
        return _do(options, suite, scale, processes, count, threads)


def _do(options: Run, suite: Suite, scale: Scale, workers: Workers, count: int, threads: int | None) -> int:
    """All cells; then those that their results ask for."""
    from beacon.cli.suite_progress import SuiteProgress
    from beacon.suites.grids import cells
    from beacon.suites.runner import check, run_cells

    folders = options.selection.folders()
    folders.prepare()
    chosen = _planned(suite.name, options.selection)
    while True:
        wanted = cells(chosen)
        try:
            with SuiteProgress(wanted, chosen, folders, scale, count) as progress:
                outcome = run_cells(
                    wanted, folders, workers, device=options.device, threads=threads, notify=progress
                )
        except KeyboardInterrupt:
            print("beacon: interrupted; the same command goes on where it stopped", file=sys.stderr)
            return 130
        command = f"beacon suite table {suite.name}{options.selection.said('preset', 'seeds', 'results')}"
        print(f"{outcome.done} of {len(wanted)} cells are done; {command} shows them")
        check(outcome)
        chosen = _planned(suite.name, options.selection)
        if {cell.key for cell in cells(chosen)} <= {cell.key for cell in wanted}:
            return 0


def _planned(name: str, selection: Selection, *, extra: bool = False) -> list[Place]:
    """The places of a suite that are known now."""
    from beacon.suites.grids import find_suite, places
    from beacon.suites.scales import find_scale
    from beacon.suites.tables import ResultStore

    scale, suite = find_scale(selection.preset), find_suite(name)
    store = ResultStore(selection.folders())
    return places(suite, scale, selection.choice(), store, extra=extra)


def _list(arguments: list[str]) -> int:
    options: Listing = _parse(Listing, arguments, "list", Listing(None, Selection()))
    if options.name is not None:
        return _show(options.name, options.selection, options.workers)
    from beacon.suites.estimate import Estimate, in_words
    from beacon.suites.grids import SUITES, cells
    from beacon.suites.scales import find_scale

    scale, folders = find_scale(options.selection.preset), options.selection.folders()
    if options.selection.methods or options.selection.tasks or options.selection.gaps:
        raise UserError("--methods, --tasks and --gaps: name the suite that they are of")
    estimate = Estimate(scale, folders.results)
    workers = options.workers or scale.workers
    rows = []
    for suite in SUITES.values():
        wanted = cells(_planned(suite.name, options.selection))
        done = sum(folders.is_done(cell) for cell in wanted)
        left = estimate.left(wanted, folders, workers)
        rows.append((suite.name, f"{done} of {len(wanted)}", in_words(left) if left else "", suite.about))
    _print_table(("suite", "done", "time left", "what it is"), rows)
    return 0


def _table(arguments: list[str]) -> int:
    options: Table = _parse(Table, arguments, "table", Table(None, Selection()))
    selection = options.selection
    if options.docs is not None:
        if options.name is not None:
            raise UserError("--docs writes the page of all suites; leave the name away")
        limits = selection.said("preset", "seeds", "methods", "tasks", "gaps")
        if limits:
            raise UserError(f"--docs writes the page of all results; leave{limits} away")
        from beacon.suites.page import write_page

        written = write_page(selection.folders(), options.docs)
        print(f"wrote {written[0]} and {len(written) - 1} figures")
        return 0
    if options.name is None:
        raise UserError("beacon suite table: name a suite; see beacon suite list")
    from beacon.suites.grids import find_suite
    from beacon.suites.scales import find_scale
    from beacon.suites.sections import make_sections
    from beacon.suites.tables import ResultStore

    suite, scale = find_suite(options.name), find_scale(selection.preset)
    chosen, store = _planned(suite.name, selection, extra=True), ResultStore(selection.folders())
    sections = make_sections(suite, chosen, store)
    if not sections:
        command = f"beacon suite run {suite.name}{selection.said('preset', 'seeds', 'results')}"
        seeds = ", ".join(map(str, selection.seeds))
        raise UserError(
            f"{selection.results} has no result of {suite.name} at --preset {scale.name}, --seeds {seeds}; "
            f"{command} makes them"
        )
    if options.json:
        return _print_json(suite, scale, chosen, store)
    for section in sections:
        if options.markdown:
            print(section.markdown())
            continue
        print(f"\n{section.title}")
        _print_table(section.headings, section.rows)
        if section.note:
            print(section.note)
    return 0


def _print_json(suite: Suite, scale: Scale, chosen: list[Place], store: ResultStore) -> int:
    import dataclasses
    import json

    from beacon.suites.sections import make_sections
    from beacon.suites.tables import make_columns

    columns = [dataclasses.asdict(column) for column in make_columns(suite, chosen, store)]
    for column in columns:
        for line in column["lines"]:
            line["results"] = [result["key"] for result in line["results"]]
    sections = [dataclasses.asdict(section) for section in make_sections(suite, chosen, store)]
    print(json.dumps({"suite": suite.name, "preset": scale.name, "columns": columns, "tables": sections}))
    return 0


def _show(name: str, selection: Selection, workers: int | None) -> int:
    """All cells of a suite and their state."""
    from beacon.suites.estimate import Estimate, in_words
    from beacon.suites.grids import cells
    from beacon.suites.scales import find_scale

    chosen = _planned(name, selection)
    scale, folders = find_scale(selection.preset), selection.folders()
    wanted = cells(chosen)
    estimate = Estimate(scale, folders.results)
    labels: dict[str, str] = {}
    for place in chosen:
        where = " ".join(filter(None, (place.task, place.gap, place.detail if place.cell.episodes else "")))
        labels.setdefault(place.cell.key, f"{where}: {place.title}")
    rows, counts = [], dict.fromkeys(("done", "running", "missing"), 0)
    for cell in wanted:
        state = folders.state(cell)
        counts[state] += 1
        took = "" if state == "done" else f"about {in_words(sum(estimate.seconds(cell)))}"
        rows.append((cell.key, labels.get(cell.key, f"{cell.task}: {cell.method}"), cell.seed, state, took))
    _print_table(("cell", "what", "seed", "state", "time"), [tuple(map(str, row)) for row in rows])
    left = estimate.left(wanted, folders, workers or scale.workers)
    basis = "by what the done ones took" if estimate.measured else "a guess until some are done"
    said = ", ".join(f"{count} {state}" for state, count in counts.items())
    time = f"; about {in_words(left)} left with {workers or scale.workers} side by side ({basis})"
    print(f"{said}{time if left else ''}")
    return 0


def _print_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)  # in a file or a pipe nothing needs to be cut short
    table = Table(*headings)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
