"""``beacon desk``: look through demonstrations, and decide about them."""

from __future__ import annotations

import getpass
import webbrowser
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from beacon.cli import parsing
from beacon.errors import UserError
from beacon.progress_display import shown_progress

DESCRIPTION = """Look through demonstrations on a page of this machine, and decide about them.

Examples:
  beacon desk sim.hdf5 real.hdf5 --target real.hdf5
  beacon desk sim.hdf5 --audit audit --run runs/beacon
  beacon desk --run runs/beacon --decisions decisions.jsonl
  beacon desk so101_sim --rerun demonstrations.rrd

A grid of all demonstrations, sorted by weight or score; one of them large with all cameras, actions,
proprioception, weight and loss under one time cursor, what the audit says of it, and the nearest target
demonstration beside it. Every decision goes to decisions.jsonl at once; beacon train, beacon weights
--curate, beacon data convert and beacon data repair take that file with --decisions. Keys: arrows, Enter,
space to play, K keep, D drop, F repair, N note, U undo, / search."""


@dataclass(frozen=True)
class DeskArguments:
    """What the command line takes."""

    paths: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH ...]", help_behavior_hint="")
    ] = ()
    """Datasets or cards; with --audit or --run, by default those that it is of."""
    audit: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of beacon audit --out, or audit.json: scores and reasons."""
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Run folder: weights and losses at its newest checkpoint."""
    target: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """Which dataset is the target's; by default the one that the audit or the run names."""
    decisions: Annotated[Path, tyro.conf.arg(metavar="F")] = Path("decisions.jsonl")
    """Where decisions are written."""
    who: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Who decides; by default the name of the user."""
    port: int = 0
    """Port of the page; 0 takes a free one."""
    open: bool = False
    """Open the page in the browser."""
    rerun: Annotated[Path | None, tyro.conf.arg(metavar="OUT.rrd")] = None
    """Write the demonstrations for the Rerun viewer instead of serving a page."""
    rerun_demos: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """How many demonstrations --rerun writes at most: the worst by score or weight first."""

    def __post_init__(self) -> None:
        if self.rerun is not None and self.rerun.suffix != ".rrd":
            raise UserError(f"--rerun {self.rerun}: must end in .rrd")
        if self.rerun_demos < 1:
            raise UserError(f"--rerun-demos {self.rerun_demos}: must be at least 1")


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: DeskArguments = parsing.parse(
            DeskArguments, arguments, prog="beacon desk", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.desk.annotations import Sources, open_collection

    sources = Sources(options.paths, options.audit, options.run, options.target)
    with shown_progress():
        collection, annotations = open_collection(sources)
    with closing(collection):
        if options.rerun is not None:
            from beacon.desk.rerun_file import write_rerun

            count = write_rerun(options.rerun, collection, annotations, options.rerun_demos)
            print(
                f"{options.rerun}: {count} of {len(collection.demos)} demonstrations; rerun {options.rerun}"
            )
            return 0
        from beacon.desk.journal import Journal
        from beacon.desk.server import Desk, DeskServer, serve

        journal = Journal(options.decisions.resolve(), collection, options.who or _user())
        with DeskServer(Desk(collection, annotations, journal), options.port) as server:
            print(f"{server.address} shows {len(collection.demos)} demonstrations", flush=True)
            print(f"decisions go to {journal.file}; stop with Ctrl-C", flush=True)
            if options.open:
                webbrowser.open(server.address)
            serve(server)
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may know no name of its user
        return "unknown"
