"""What ``beacon suite list`` and ``beacon suite table`` print."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beacon.cli import parsing
from beacon.cli.messages import print_json
from beacon.cli.suite_options import Listing, Selection, Table
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.suites.presets import SuitePreset
    from beacon.suites.setting import TableEntry
    from beacon.suites.suite import Suite
    from beacon.suites.tables import ResultStore


def parse(options: Any, arguments: list[str], command: str, default: Any) -> Any:
    """The options of ``beacon suite COMMAND``, described by their own docstring."""
    described = inspect.cleandoc(str(options.__doc__))
    return parsing.parse(
        options, arguments, prog=f"beacon suite {command}", description=described, default=default
    )


def planned(name: str, selection: Selection, *, extra: bool = False) -> list[TableEntry]:
    """The entries of a suite that are known now."""
    from beacon.suites.suite import SUITES, select_entries
    from beacon.suites.tables import ResultStore

    preset, suite = selection.sizes(), SUITES.find(name)
    store = ResultStore(selection.folders())
    return select_entries(suite, preset, selection.choice(), store, extra=extra)


def list_suites(arguments: list[str]) -> int:
    """``beacon suite list``."""
    options: Listing = parse(Listing, arguments, "list", Listing(None, Selection()))
    if options.name is not None:
        return show_experiments(options.name, options.selection, options.workers, as_json=options.json)
    from beacon.suites.estimate import Estimate, in_words
    from beacon.suites.suite import SUITES, experiments_of

    preset, folders = options.selection.sizes(), options.selection.folders()
    if options.selection.methods or options.selection.tasks or options.selection.gaps:
        raise UserError("--methods, --tasks and --gaps: name the suite that they are of")
    estimate = Estimate(preset, folders.results)
    workers = options.workers or preset.workers
    rows, summaries = [], []
    for suite in SUITES.values():
        wanted = experiments_of(planned(suite.name, options.selection))
        done = sum(folders.is_done(experiment) for experiment in wanted)
        left = estimate.left(wanted, folders, workers)
        summaries.append(
            {"suite": suite.name, "done": done, "experiments": len(wanted), "seconds_left": left}
        )
        rows.append((suite.name, f"{done} of {len(wanted)}", in_words(left) if left else "", suite.about))
    if options.json:
        print_json({"preset": preset.name, "suites": summaries})
    else:
        print_table(("suite", "done", "time left", "what it is"), rows)
    return 0


def show_table(arguments: list[str]) -> int:
    """``beacon suite table``."""
    options: Table = parse(Table, arguments, "table", Table(None, Selection()))
    selection = options.selection
    if options.docs is not None:
        if options.name is not None:
            raise UserError("--docs writes the page of all suites; leave the name away")
        limits = selection.said("preset", "seeds", "methods", "tasks", "gaps", "columns")
        if limits:
            raise UserError(f"--docs writes the page of all results; leave{limits} away")
        from beacon.suites.page import write_page

        written = write_page(selection.folders(), options.docs)
        print(f"wrote {written[0]} and {len(written) - 1} figures")
        return 0
    if options.name is None:
        raise UserError("beacon suite table: name a suite; see beacon suite list")
    from beacon.suites.sections import make_sections
    from beacon.suites.suite import SUITES
    from beacon.suites.tables import ResultStore

    suite, preset = SUITES.find(options.name), selection.sizes()
    chosen, store = planned(suite.name, selection, extra=True), ResultStore(selection.folders())
    if options.rank_with is not None:
        return _print_ranks(suite, selection, options.rank_with, store)
    sections = make_sections(suite, chosen, store)
    if not sections:
        command = f"beacon suite run {suite.name}{selection.said('preset', 'states', 'seeds', 'results')}"
        seeds = ", ".join(map(str, selection.seeds))
        raise UserError(
            f"{selection.results} has no result of {suite.name} at --preset {preset.name}, --seeds {seeds}; "
            f"{command} makes them"
        )
    if options.json:
        return _print_json(suite, preset, chosen, store)
    for section in sections:
        if options.markdown:
            print(section.markdown())
            continue
        print(f"\n{section.title}")
        print_table(section.headings, section.rows)
        if section.note:
            print(section.note)
    return 0


def _print_ranks(suite: Suite, selection: Selection, other: str, store: ResultStore) -> int:
    """How alike two presets rank the methods."""
    import dataclasses

    from beacon.suites.ranks import rank_agreement
    from beacon.suites.tables import make_columns

    selections = [dataclasses.replace(selection, preset=name) for name in (selection.preset, other)]
    both = [make_columns(suite, planned(suite.name, s, extra=True), store) for s in selections]
    agreements = rank_agreement(*both)
    if not agreements:
        raise UserError(f"{suite.name} has no column with results at both {selection.preset} and {other}")
    rows = [
        (
            agreement.column,
            str(agreement.methods),
            str(agreement.seeds),
            "too few" if agreement.correlation is None else f"{agreement.correlation:+.2f}",
        )
        for agreement in agreements
    ]
    print_table(("column", "methods", "seeds of all", f"rank correlation with {other}"), rows)
    return 0


def _print_json(suite: Suite, preset: SuitePreset, chosen: list[TableEntry], store: ResultStore) -> int:
    import dataclasses
    import json

    from beacon.suites.sections import make_sections
    from beacon.suites.tables import make_columns

    columns = [dataclasses.asdict(column) for column in make_columns(suite, chosen, store)]
    for column in columns:
        for line in column["lines"]:
            line["results"] = [result["key"] for result in line["results"]]
    sections = [dataclasses.asdict(section) for section in make_sections(suite, chosen, store)]
    print(json.dumps({"suite": suite.name, "preset": preset.name, "columns": columns, "tables": sections}))
    return 0


def show_experiments(name: str, selection: Selection, workers: int | None, *, as_json: bool = False) -> int:
    """All experiments of a suite and their state."""
    from beacon.suites.estimate import Estimate, in_words
    from beacon.suites.suite import SUITES, experiments_of

    chosen = planned(name, selection)
    preset, folders = selection.sizes(), selection.folders()
    wanted = experiments_of(chosen)
    estimate = Estimate(preset, folders.results)
    labels: dict[str, str] = {}
    for entry in chosen:
        detail = entry.detail if entry.experiment.episodes else ""
        where = " ".join(filter(None, (entry.task, entry.gap, detail)))
        labels.setdefault(entry.experiment.key, f"{where}: {entry.title}")
    rows, counts = [], dict.fromkeys(("done", "running", "missing"), 0)
    for experiment in wanted:
        state = folders.state(experiment)
        counts[state] += 1
        took = "" if state == "done" else f"about {in_words(sum(estimate.seconds(experiment)))}"
        label = labels.get(experiment.key, f"{experiment.task}: {experiment.method}")
        rows.append((experiment.key, label, experiment.seed, state, took))
    left = estimate.left(wanted, folders, workers or preset.workers)
    if as_json:
        names = ("key", "what", "seed", "state")
        listed = [dict(zip(names, row, strict=False)) for row in rows]
        print_json({"suite": name, "preset": preset.name, "seconds_left": left, "experiments": listed})
        return 0
    print_table(("experiment", "what", "seed", "state", "time"), [tuple(map(str, row)) for row in rows])
    basis = "by what the done ones took" if estimate.measured else "a guess until some are done"
    said = ", ".join(f"{count} {state}" for state, count in counts.items())
    time = f"; about {in_words(left)} left with {workers or preset.workers} side by side ({basis})"
    print(f"{said}{time if left else ''}")
    _print_method_names(SUITES[name])
    return 0


def _print_method_names(suite: Suite) -> None:
    """What ``--methods`` takes."""
    from beacon.suites.suite import method_names

    names = method_names(suite)
    for label, group in (
        ("--methods takes", names.usual),
        ("only when asked for", names.extra),
        ("any other method or variant", names.others),
    ):
        if group:
            print(f"{label}: {' '.join(group)}")


def print_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table, as wide as it needs to be where there is no terminal."""
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
