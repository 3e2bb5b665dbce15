"""The options of ``beacon suite``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.suites.presets import SuitePreset
    from beacon.suites.results import Folders
    from beacon.suites.suite import Choice

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class Selection:
    """What all three take."""

    # Sizes: "cpu" for two cores; "quick" and "long" with a quarter and four times its steps; "paper" for one
    # GPU; "tiny" to see that everything works. With "quick" the order of methods is another one. "free-view"
    # is "cpu" with the camera map of earlier results.
    preset: str = "cpu"
    # Initial states that policies are judged from: "validation" to choose options by, "test" for final
    # tables, "first" for those of the first tables, which choices have seen.
    states: str = "first"
    # Seeds of the runs, each with target demonstrations of its own.
    seeds: tuple[int, ...] = (0, 1, 2)
    # Only these rows, for example beacon cotrain-natural; beacon suite list NAME shows them. Any installed
    # method or method variant can be named as well.
    methods: tuple[str, ...] = ()
    # Only these tasks; any installed one can be named.
    tasks: tuple[str, ...] = ()
    # Only these gaps, that is target domains; any installed one can be named.
    gaps: tuple[str, ...] = ()
    # Only these columns where a task and gap has several, for example ood in sim2real or n=10 in scaling.
    columns: tuple[str, ...] = ()
    # Folder of the results, one small JSON file an experiment.
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
                words += [f"--{name}", *(shlex.quote(str(item)) for item in several)]
        return "".join(f" {word}" for word in words)

    def choice(self) -> Choice:
        """Which part of the suite."""
        from beacon.suites.suite import Choice

        return Choice(tuple(dict.fromkeys(self.seeds)), self.methods, self.tasks, self.gaps, self.columns)

    def sizes(self) -> SuitePreset:
        """How much of everything, judged from which initial states."""
        from beacon.suites.presets import find_preset

        return find_preset(self.preset, self.states)

    def folders(self) -> Folders:
        """Where things are."""
        from beacon.suites.results import Folders

        return Folders(self.work, self.results)


@dataclass(frozen=True)
class Run:
    """Do all experiments of a suite that are not done, several side by side.

    For example:  beacon suite run sim2sim --tasks stack --workers 2

    An experiment is one run with its evaluations. What is done is never done again, in whatever suite it
    appears; an interrupted experiment goes on in the middle of its training; two commands on one folder share
    the work.
    """

    # Suite, for example sim2sim; see beacon suite list.
    name: Name
    selection: Annotated[Selection, tyro.conf.arg(name="")]
    # Experiments side by side, each on one thread; default: 2 for cpu, 1 for paper.
    workers: int | None = None
    # Where to compute: "auto" takes a GPU when there is one.
    device: str = "auto"
    # Let the Ray cluster that RAY_ADDRESS names do the experiments; its nodes must share both folders.
    ray: bool = False
    # With --ray, the share of a GPU that an experiment has, such as 0.25; default: 0 for cpu, 1 for paper.
    gpus_per_cell: float | None = None
    # Only say what would be done.
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.gpus_per_cell is not None and not self.ray:
            raise UserError(f"--gpus-per-cell {self.gpus_per_cell:g}: needs --ray")
        if self.gpus_per_cell is not None and not 0 <= self.gpus_per_cell <= 64:
            raise UserError(f"--gpus-per-cell {self.gpus_per_cell:g}: must be from 0 to 64")


@dataclass(frozen=True)
class Listing:
    """Show what is done, running and missing, and how long the rest will take.

    For example:  beacon suite list sim2sim --seeds 0
    """

    # Suite; without one, all suites in a line each.
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")]
    selection: Annotated[Selection, tyro.conf.arg(name="")]
    # Experiments side by side, for the estimate of the time.
    workers: int | None = None
    # Print JSON.
    json: bool = False

    def __post_init__(self) -> None:
        check_workers(self.workers)


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
    # Print instead how alike this other preset ranks the methods (Spearman's correlation).
    rank_with: Annotated[str | None, tyro.conf.arg(metavar="PRESET")] = None
    # Write results.md and pictures/results/ of all suites into this folder.
    docs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None


def check_workers(workers: int | None) -> None:
    """Complain about less than one."""
    if workers is not None and workers < 1:
        raise UserError(f"--workers {workers}: must be at least 1")
