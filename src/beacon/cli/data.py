"""``beacon data``: what is in a dataset, is it sound, do datasets fit together; cards and conversion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from beacon.cli import parsing
from beacon.cli.data_help import USAGE
from beacon.cli.messages import print_json
from beacon.errors import UserError, meant
from beacon.progress_display import shown_progress

if TYPE_CHECKING:
    from beacon.data.mapping import ObservationMapping

Skip = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Inspect:
    """Show what is in a dataset: demonstrations, lengths, arrays, shapes, ranges, masks, environment.

    For example:  beacon data inspect sim.hdf5 --mask train --contact-sheet sim.png

    The last column of the table counts the demonstrations that have an array; it should be the same for all.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="F")]
    """The dataset, or a card."""
    mask: Annotated[str | None, tyro.conf.arg(metavar="KEY")] = None
    """Look only at the demonstrations of this mask, for example train."""
    contact_sheet: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """Also draw frames over time of some demonstrations into this .png or .jpg."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="PAGE")] = None
    """Also write a page with pictures and a plot of every dimension."""
    json: Skip = False
    """Print the contents as JSON instead of tables."""
    skip_incomplete: Skip = False
    """Leave out episodes whose files are missing."""


@dataclass(frozen=True)
class Check:
    """List errors and warnings in datasets, and differences between them.

    For example:  beacon data check sim.hdf5 real.yaml --rename agentview_image=front

    An error makes training refuse or fail: NaN, missing keys, lengths that do not match, demonstrations
    without steps, damaged files, a camera that shows nothing at all, domains that do not fit together. A
    warning is for you to judge: constant action dimensions, actions outside -1..1, duplicate demonstrations,
    black or frozen images, wrong totals. With several datasets, the last is taken for the target's, and the
    others are compared with it: rates, action scales, units, brightness, lengths.

    Exit code: 2 when there is an error, 0 otherwise (also with warnings).
    """

    files: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="F [F ...]", help_behavior_hint="(at least one)"),
    ]
    """One or more datasets or cards, the target's last."""
    rename: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="OLD=NEW")] = ()
    """Observations that are called otherwise somewhere; repeat for several, as for beacon train."""
    cameras: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None
    """Cameras to use, as for beacon train."""
    proprio: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None
    """Proprioception to use, as for beacon train."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """Height and width that images are resized to, as for beacon train."""
    validation: Annotated[Path | None, tyro.conf.arg(metavar="F")] = None
    """Held-out demonstrations, as for beacon train."""
    json: Skip = False
    """Print the findings as JSON."""
    skip_incomplete: Skip = False
    """Leave out episodes whose files are missing."""


@dataclass(frozen=True)
class WriteCard:
    """Write a card for a dataset: everything that is in it, with ranges as comments, to be edited.

    For example:  beacon data card so101_real > real.yaml

    A card can be given wherever a dataset can.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="F")]
    """The dataset."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="CARD")] = None
    """Write it here instead of printing it; the path in it is then relative to the card, if it is below."""
    skip_incomplete: Skip = False
    """Leave out episodes whose files are missing."""


@dataclass(frozen=True)
class Convert:
    """Write a dataset in another format: robomimic HDF5 (.hdf5), or a LeRobot v3.0 folder.

    For example:  beacon data convert sim.hdf5 sim_lerobot

    A card as input applies what it says: slices, scales, rate, image size. What LeRobot has no place for is
    kept in meta/beacon.json, so that converting back gives the same dataset but for the video's losses.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FROM")]
    """The dataset, or a card."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TO")]
    """The new dataset: NAME.hdf5, or a folder for LeRobot."""
    images: Skip = False
    """LeRobot: embed every picture, without loss, instead of writing video."""
    fps: Annotated[float | None, tyro.conf.arg(metavar="HZ")] = None
    """Control steps a second, where the dataset does not say."""
    mask: Annotated[str | None, tyro.conf.arg(metavar="KEY")] = None
    """Only the demonstrations of this mask."""
    skip_incomplete: Skip = False
    """Leave out episodes whose files are missing."""
    overwrite: Skip = False
    """Replace a dataset that is there."""
    decisions: Annotated[Path | None, tyro.conf.arg(metavar="F")] = None
    """decisions.jsonl: demonstrations that were dropped are left out."""


@dataclass(frozen=True)
class RepairData:
    """Write a copy with the actions of some demonstrations repaired, where an audit is certain how.

    For example:  beacon data repair sim.hdf5 sim_repaired.hdf5 --audit audit/audit.json --only lag,sign

    Certain is a residual after the change of at most 1.2 times the usual one, at p < 0.01. All other
    demonstrations are copied as they are. Each notes what was done in its attribute beacon_repair. The
    dataset itself is never changed.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FROM")]
    """The dataset that was audited."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TO")]
    """The new dataset: NAME.hdf5, or a folder for LeRobot."""
    audit: Annotated[Path, tyro.conf.arg(metavar="F")]
    """audit.json of the dataset, or its folder."""
    only: Annotated[str, tyro.conf.arg(metavar="KINDS")] = "lag,sign,scale,offset,permutation"
    """Which changes are made."""
    decisions: Annotated[Path | None, tyro.conf.arg(metavar="F")] = None
    """decisions.jsonl: only those with the decision repair are repaired; dropped ones are left out."""
    images: Skip = False
    """LeRobot: embed every picture, without loss, instead of writing video."""
    overwrite: Skip = False
    """Replace a dataset that is there."""


def main(arguments: list[str]) -> int:
    """Run ``beacon data ARGUMENTS`` and return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        near = meant(command, COMMANDS)
        raise UserError(f"there is no 'beacon data {command}'; {near}there are {', '.join(COMMANDS)}")
    options_class, run = COMMANDS[command]
    prog = f"beacon data {command}"
    try:
        options = parsing.parse(options_class, rest, prog=prog, description=options_class.__doc__ or "")
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 2
    with shown_progress():
        return run(options)


def _inspect(options: Inspect) -> int:
    from beacon.cli.data_tables import print_summary, summary_as_json
    from beacon.data.contact_sheet import write_contact_sheet
    from beacon.data.formats import open_dataset
    from beacon.data.formats.base import ReadOptions
    from beacon.data.inspection import summarize
    from beacon.data.inspection_page import write_page

    with open_dataset(options.file, ReadOptions(options.skip_incomplete)) as reader:
        summary = summarize(reader, options.mask)
        if options.json:
            print_json(summary_as_json(summary))
        else:
            print_summary(summary, options.mask)
        if options.contact_sheet is not None:
            write_contact_sheet(reader, summary.episodes, options.contact_sheet)
            _say(f"contact sheet: {options.contact_sheet}", options)
        if options.html is not None:
            write_page(reader, summary, options.html)
            _say(f"page: {options.html}", options)
    return 0


def _say(text: str, options: Inspect) -> None:
    print(text, file=sys.stderr if options.json else sys.stdout)


def _check(options: Check) -> int:
    from beacon.cli.data_tables import findings_as_json, print_findings
    from beacon.data.checking import CheckOptions, check_files

    if not options.files:
        raise UserError("beacon data check: name at least one dataset; see beacon data check --help")
    check_options = CheckOptions(_mapping(options), options.skip_incomplete, options.validation)
    findings = check_files(options.files, check_options)
    if options.json:
        print_json(findings_as_json(findings, options.files))
    else:
        print_findings(findings, options.files)
    return 2 if any(finding.severity == "error" for finding in findings) else 0


def _mapping(options: Check) -> ObservationMapping:
    from beacon.data.mapping import ObservationMapping, parse_rename

    return ObservationMapping(
        options.cameras, options.proprio, parse_rename(options.rename), options.image_size
    )


def _card(options: WriteCard) -> int:
    from beacon.data.card import SUFFIXES
    from beacon.data.card_writing import card_with_comments
    from beacon.data.formats import open_dataset
    from beacon.data.formats.base import ReadOptions
    from beacon.files import write_bytes

    if options.file.suffix in SUFFIXES:
        raise UserError(f"{options.file} is a card already")
    if options.out is not None and options.out.suffix not in SUFFIXES:
        raise UserError(f"--out {options.out}: must end in .yaml")
    with open_dataset(options.file, ReadOptions(options.skip_incomplete)) as reader:
        path = options.file.resolve()
        if options.out is not None and path.is_relative_to(options.out.resolve().parent):
            path = path.relative_to(options.out.resolve().parent)
        text = card_with_comments(reader, path)
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_bytes(options.out, text.encode())
        print(f"card: {options.out}")
    return 0


def _convert(options: Convert) -> int:
    from beacon.data.converting import ConvertOptions, convert

    count = convert(
        options.source,
        options.out,
        ConvertOptions(
            video=not options.images,
            fps=options.fps,
            mask=options.mask,
            skip_incomplete=options.skip_incomplete,
            overwrite=options.overwrite,
            decisions=options.decisions,
        ),
    )
    print(f"{options.out}: {count} demonstration{'s' if count != 1 else ''}")
    return 0


def _repair(options: RepairData) -> int:
    from beacon.audit.repair import RepairOptions, parse_kinds, repair_dataset
    from beacon.audit.saved import read_audit

    asked = RepairOptions(
        only=parse_kinds(options.only),
        overwrite=options.overwrite,
        video=not options.images,
        decisions=options.decisions,
    )
    audit = read_audit(options.audit)
    count = repair_dataset(options.source, options.out, audit, str(options.audit), asked)
    print(
        f"{options.out}: {count.repaired} of {count.demos} demonstrations repaired; "
        f"{count.left} more are accused and were left as they are"
    )
    return 0


COMMANDS: dict[str, tuple[Any, Callable[[Any], int]]] = {
    "inspect": (Inspect, _inspect),
    "check": (Check, _check),
    "card": (WriteCard, _card),
    "convert": (Convert, _convert),
    "repair": (RepairData, _repair),
}
