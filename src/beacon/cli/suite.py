"""``beacon suite``: the paper's experiments, and ours, as tables of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tyro

from beacon.cli.suite_options import Run, Selection
from beacon.cli.suite_plan import plan
from beacon.cli.suite_running import run_entries
from beacon.cli.suite_tables import list_suites, parse, planned, show_experiments, show_table
from beacon.errors import UserError, meant

if TYPE_CHECKING:
    from beacon.processes import Workers
    from beacon.suites.presets import SuitePreset

USAGE = """\
usage: beacon suite run|list|table NAME [options]
       beacon suite plan [FILE] [options]

Reproduce the paper's experiments as tables of runs, on one GPU or, scaled down, on two cores.

  run     run all experiments of a suite that are not done; repeat the command to continue
  list    list what is done, running and missing, the time left, and the names for --methods
  table   print success rates with intervals, beside the paper's
  plan    show, or run, tables whose rows and seeds a file declares

examples:
  beacon suite list                                       the suites, and how much is done
  beacon suite run sim2sim --tasks stack --gaps texture   one column of the first table, on two cores
  beacon suite run sim2sim --preset paper                 the whole table at the paper's sizes, on a GPU
  beacon suite table sim2sim                              its table
  beacon suite run --help                                 every option

exit codes: 0 done, 1 failed, 2 the input is wrong"""


def main(arguments: list[str]) -> int:
    """Run the verb."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    command, *rest = arguments
    commands = {"run": _run, "list": list_suites, "table": show_table, "plan": plan}
    if command not in commands:
        near = meant(command, tuple(commands))
        raise UserError(f"there is no 'beacon suite {command}'; {near}there are run, list, table and plan")
    try:
        return commands[command](rest)
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0


def _run(arguments: list[str]) -> int:
    options: Run = parse(Run, arguments, "run", Run(tyro.MISSING, Selection()))
    from beacon.suites.suite import SUITES

    SUITES.find(options.name)
    preset = options.selection.sizes()
    if options.dry_run:
        planned(options.name, options.selection)
        return show_experiments(options.name, options.selection, options.workers)
    threads = 1 if preset.train_preset == "cpu" else None
    if options.ray:
        from beacon.suites.cluster import RayTasks

        gpus = options.gpus_per_cell
        if gpus is None:
            gpus = 0.0 if preset.train_preset == "cpu" else 1.0
        with RayTasks(options.workers, threads, gpus=gpus) as tasks:
            return _run_all(options, preset, tasks, tasks.count, threads)
    from beacon.processes import Processes

    count = options.workers or preset.workers
    with Processes(count, threads) as processes:
        return _run_all(options, preset, processes, count, threads)


def _run_all(options: Run, preset: SuitePreset, workers: Workers, count: int, threads: int | None) -> int:
    selection = options.selection
    shown = f"beacon suite table {options.name}{selection.said('preset', 'states', 'seeds', 'results')}"
    return run_entries(
        lambda: planned(options.name, selection),
        selection.folders(),
        preset,
        workers,
        count=count,
        threads=threads,
        device=options.device,
        shown_by=shown,
    )
