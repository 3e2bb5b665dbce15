"""``beacon audit``: which demonstrations can be trusted, without training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.cli.set_checks import check_sets
from beacon.errors import UserError
from beacon.progress_display import shown_progress

if TYPE_CHECKING:
    from beacon.audit.saved import SavedAudit
    from beacon.data import EpisodeSet

DESCRIPTION = """Say which source demonstrations are not sound, and why, before anything is trained.

Examples:
  beacon audit --source sim.hdf5 --target real.hdf5
  beacon audit --source a.hdf5 --source b_lerobot --target real.hdf5 --out audit
  beacon audit --source sim.hdf5 --target real.hdf5 --json | jq '.result.sets[0].remarks'

Actions against motion, where demonstrations go against what their first picture says, cameras, frozen and
dropped frames, duplicates, labels of success. An accusation has a p-value; among all that are accused, about
the share --false-discovery-rate is accused wrongly. --out writes audit.json, audit.parquet and audit.html."""

FRAMES_IN_MEMORY = 256 * 2**20  # bytes; what is beyond is mapped from a file, a demonstration at a time
MOST_LISTED = 30  # demonstrations in the terminal, of one set


@dataclass(frozen=True)
class AuditArguments:
    """What the command line takes."""

    # A source dataset or a card; repeat for several sets, each is judged on its own.
    source: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="F")]
    # Demonstrations that are taken to be sound; repeat for several datasets of one domain.
    target: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="F")]
    # Folder for audit.json, audit.parquet and audit.html; without it nothing is written.
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    # Print what audit.json would hold instead of tables.
    json: bool = False
    # Share of false accusations among all accusations (Benjamini and Hochberg).
    false_discovery_rate: float = 0.05
    # Height and width that images are resized to.
    image_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    # Observations that are called otherwise somewhere; repeat for several.
    rename: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="OLD=NEW")] = ()
    # Cameras to use; by default all that every set has.
    cameras: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None
    # Proprioception to use; by default the end effector's.
    proprio: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None
    # Demonstrations to list in the terminal, of every set.
    demos: int = MOST_LISTED

    def __post_init__(self) -> None:
        check_sets("audit", self.source, self.target, self.image_size, self.out)
        if self.demos < 0:
            raise UserError(f"--demos {self.demos}: must be at least 0")


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: AuditArguments = parsing.parse(
            AuditArguments, arguments, prog="beacon audit", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.audit.saved import to_json
    from beacon.cli.audit_tables import print_audit

    saved = _audit(options)
    if options.json:
        sys.stdout.write(to_json(saved))
    else:
        print_audit(saved.result, options.demos)
    if options.out is not None:
        _write(options.out, saved)
        print(f"written: {options.out}", file=sys.stderr if options.json else sys.stdout)
    return 0


def _audit(options: AuditArguments) -> SavedAudit:
    from beacon.audit.run import AuditOptions, run_audit
    from beacon.audit.saved import SavedAudit

    asked = AuditOptions(false_discovery_rate=options.false_discovery_rate)
    with shown_progress() as advance:
        advance("opening the datasets", 0, 1)
        *sources, target = _load(options)
        result = run_audit(sources, target, asked, advance)
    return SavedAudit.of(sources, target, asked, result)


def _load(options: AuditArguments) -> list[EpisodeSet]:
    from beacon.data import ObservationMapping, load_domains, parse_rename

    mapping = ObservationMapping(
        options.cameras, options.proprio, parse_rename(options.rename), options.image_size
    )
    return load_domains(
        [*options.source, options.target],
        mapping=mapping,
        memory_limit_bytes=FRAMES_IN_MEMORY,
        target=len(options.source),
    )


def _write(folder: Path, saved: SavedAudit) -> None:
    from beacon.audit.saved import JSON_FILE, PAGE_FILE, TABLE_FILE, save_json, save_table
    from beacon.files import write_bytes
    from beacon.report import draw_audit

    page = draw_audit(saved.result).encode()
    save_table(folder / TABLE_FILE, saved.result)
    write_bytes(folder / PAGE_FILE, page)
    save_json(folder / JSON_FILE, saved)
