"""``beacon suite plan``: tables that were declared before they were run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli.messages import print_json
from beacon.cli.suite_options import check_workers
from beacon.cli.suite_running import run_entries
from beacon.cli.suite_tables import parse, print_table

if TYPE_CHECKING:
    from beacon.suites.plan import DeclaredTable
    from beacon.suites.results import Folders
    from beacon.suites.setting import TableEntry


@dataclass(frozen=True)
class Plan:
    """Show how much of the declared tables is done; with --run, do the rest in the order of the file.

    For example:  beacon suite plan results/plan.yaml --run --workers 1

    Rows and seeds are declared in the file before a table is run, so that none is added after looking.
    """

    # YAML file: a list of tables, each with suite, seeds and, if not the defaults, preset, states, methods,
    # tasks, gaps, columns, about.
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FILE]")] = Path("results/plan.yaml")
    # Do all experiments that are not done; repeat the command to continue.
    run: bool = False
    # Experiments side by side, each on one thread; default: 2 for cpu, 1 for paper.
    workers: int | None = None
    # Where to compute: "auto" takes a GPU when there is one.
    device: str = "auto"
    # Print JSON.
    json: bool = False
    # Folder of the results, one small JSON file an experiment.
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    # Folder of demonstrations and runs, which are large.
    work: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/suites")

    def __post_init__(self) -> None:
        check_workers(self.workers)


def plan(arguments: list[str]) -> int:
    """Show or run the declared tables."""
    options: Plan = parse(Plan, arguments, "plan", Plan())
    from beacon.suites.plan import read_plan
    from beacon.suites.results import Folders

    tables, folders = read_plan(options.file), Folders(options.work, options.results)
    if not options.run:
        return _show(tables, folders, options)
    for _, same_sizes in groupby(tables, key=lambda table: table.preset):
        group = tuple(same_sizes)
        status = _run(group, folders, options)
        if status:
            return status
    return 0


def _run(tables: Sequence[DeclaredTable], folders: Folders, options: Plan) -> int:
    """Tables of one preset, without a pause between one and the next."""
    from beacon.processes import Processes

    preset = tables[0].sizes()
    threads = 1 if preset.train_preset == "cpu" else None
    count = options.workers or preset.workers

    def entries() -> list[TableEntry]:
        return [entry for table in tables for entry in table.entries(folders)]

    with Processes(count, threads) as processes:
        return run_entries(
            entries, folders, preset, processes, count=count, threads=threads, device=options.device
        )


def _show(tables: Sequence[DeclaredTable], folders: Folders, options: Plan) -> int:
    from beacon.suites.estimate import Estimate, in_words
    from beacon.suites.suite import experiments_of

    rows, listed = [], []
    counted: set[str] = set()
    total = 0.0
    for table in tables:
        preset, wanted = table.sizes(), experiments_of(table.entries(folders))
        workers = options.workers or preset.workers
        done = sum(folders.is_done(experiment) for experiment in wanted)
        new = [experiment for experiment in wanted if experiment.key not in counted]
        left = Estimate(preset, folders.results).left(new, folders, workers)
        counted |= {experiment.key for experiment in wanted}
        total += left
        seeds = ", ".join(map(str, table.seeds))
        name = table.suite if table.preset == "cpu" else f"{table.suite}, {table.preset}"
        rows.append((name, table.states, seeds, f"{done} of {len(wanted)}", in_words(left), table.about))
        listed.append(
            {
                "suite": table.suite,
                "preset": table.preset,
                "states": table.states,
                "seeds": list(table.seeds),
                "done": done,
                "experiments": len(wanted),
                "seconds_left": left,
                "about": table.about,
            }
        )
    if options.json:
        print_json({"plan": str(options.file), "tables": listed, "seconds_left": total})
        return 0
    print_table(("suite", "states", "seeds", "done", "time left", "about"), rows)
    if total:
        print(f"about {in_words(total)} left; beacon suite plan {options.file} --run does the rest")
    return 0
