"""Running entries of suites with progress, until their results ask for no more."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beacon.processes import Workers
    from beacon.suites.presets import SuitePreset
    from beacon.suites.results import Folders
    from beacon.suites.setting import TableEntry


def run_entries(
    entries: Callable[[], list[TableEntry]],
    folders: Folders,
    preset: SuitePreset,
    workers: Workers,
    *,
    count: int,
    threads: int | None,
    device: str,
    shown_by: str = "beacon suite table",
) -> int:
    """All experiments of the entries; then those that their results ask for. Returns the exit code.

    Args:
        entries: what is known now; asked again when all of it is done.
        folders: where demonstrations, runs and results are.
        preset: for the estimate of the time.
        workers: who runs them.
        count: how many workers.
        threads: of torch in each; None: as they are.
        device: where to compute.
        shown_by: the command that shows the results.
    """
    from beacon.cli.suite_progress import SuiteProgress
    from beacon.suites.run_experiment import Execution
    from beacon.suites.runner import check, run_experiments
    from beacon.suites.suite import experiments_of

    execution = Execution(device, threads)
    folders.prepare()
    chosen = entries()
    while True:
        wanted = experiments_of(chosen)
        try:
            with SuiteProgress(wanted, chosen, folders, preset, count) as progress:
                outcome = run_experiments(wanted, folders, workers, execution=execution, notify=progress)
        except KeyboardInterrupt:
            print("beacon: interrupted; the same command goes on where it stopped", file=sys.stderr)
            return 130
        print(f"{outcome.done} of {len(wanted)} experiments are done; {shown_by} shows them")
        check(outcome)
        chosen = entries()
        if {experiment.key for experiment in experiments_of(chosen)} <= {e.key for e in wanted}:
            return 0
