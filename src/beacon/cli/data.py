"""``beacon data``: what is in a dataset, and is it sound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.data.inspection import ArraySummary, DatasetSummary


USAGE = """\
usage: beacon data inspect|check [options]

Look into datasets of demonstrations before training on them (robomimic and MimicGen HDF5).

  inspect   what is inside: demonstrations, lengths, arrays, shapes, ranges, a contact sheet
  check     everything that would break training or silently hurt it

examples:
  beacon data check sim.hdf5 real.hdf5                    are they sound, do they fit together
  beacon data inspect sim.hdf5                            one table
  beacon data inspect sim.hdf5 --contact-sheet sim.png    and a picture
  beacon data inspect --help                              every option

exit codes: 0 done or sound, 1 failed, 2 the input is wrong or check found an error"""


@dataclass(frozen=True)
class Inspect:
    """Show what is in a dataset: demonstrations, lengths, arrays, shapes, ranges, masks, environment.

    For example:  beacon data inspect sim.hdf5 --mask train --contact-sheet sim.png

    The last column of the table counts the demonstrations that have an array; it should be the same for all.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="F")]
    """The dataset (robomimic or MimicGen HDF5)."""
    mask: Annotated[str | None, tyro.conf.arg(metavar="KEY")] = None
    """Look only at the demonstrations of this mask, for example train."""
    contact_sheet: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """Also draw frames over time of some demonstrations into this .png or .jpg."""


@dataclass(frozen=True)
class Check:
    """List everything that would break training or silently hurt it.

    For example:  beacon data check sim.hdf5 real.hdf5

    An error makes training refuse or fail: NaN, missing keys, lengths that do not match, demonstrations
    without steps, damaged files, a camera that shows nothing at all. A warning is for you to judge: constant
    action dimensions, actions outside -1..1, duplicate demonstrations, black or frozen images, wrong totals.
    With several files, also whether they can be trained together and share demonstrations.

    Exit code: 2 when there is an error, 0 otherwise (also with warnings).
    """

    files: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="F [F ...]", help_behavior_hint="(at least one)"),
    ]
    """One or more datasets."""


def main(arguments: list[str]) -> int:
    """Run ``beacon data ARGUMENTS`` and return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    command, *rest = arguments
    if command not in ("inspect", "check"):
        raise UserError(f"there is no 'beacon data {command}'; there are inspect and check")
    try:
        if command == "inspect":
            return _inspect(parsing.parse(Inspect, rest, prog="beacon data inspect"))
        options = parsing.parse(Check, rest, prog="beacon data check")
    except SystemExit:  # the help was asked for
        return 0
    if not options.files:
        raise UserError("beacon data check: name at least one dataset")
    return _check(options)


def _inspect(options: Inspect) -> int:
    from beacon.data.contact_sheet import write_contact_sheet
    from beacon.data.formats import open_dataset
    from beacon.data.inspection import summarize

    with open_dataset(options.file) as reader:
        summary = summarize(reader, options.mask)
        _print_summary(summary, options.mask)
        if options.contact_sheet is not None:
            write_contact_sheet(reader, summary.episodes, options.contact_sheet)
            print(f"contact sheet: {options.contact_sheet}")
    return 0


def _check(options: Check) -> int:
    from rich.console import Console
    from rich.text import Text

    from beacon.data.checking import check_files

    findings = check_files(options.files)
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        colour = "bold red" if finding.severity == "error" else "yellow"
        console.print(Text.assemble((f"{finding.severity:<8}", colour), str(finding)))
    errors = sum(finding.severity == "error" for finding in findings)
    if not findings:
        console.print(Text(f"sound: {', '.join(map(str, options.files))}"))
    else:
        verdict = "" if errors else "; nothing that stops training"
        console.print(
            Text(f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}{verdict}")
        )
    return 2 if errors else 0


def _print_summary(summary: DatasetSummary, mask: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # in a file or a pipe nothing needs to be cut short
    lengths = sorted(summary.lengths.tolist())
    middle = (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2
    masks = ", ".join(f"{key} ({count})" for key, count in summary.masks.items()) or "none"
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("file", f"{summary.path} ({summary.format_name})"),
        ("demos", f"{len(lengths)}" + (f" in mask '{mask}'" if mask else "")),
        ("frames", f"{sum(lengths)}"),
        ("lengths", f"shortest {lengths[0]}, median {middle:g}, longest {lengths[-1]}"),
        ("masks", masks),
        ("environment", summary.environment),
    ):
        facts.add_row(Text(name, style="bold"), Text(value))
    console.print(facts)

    table = Table("array", "shape per step", "dtype", "range", "demos")
    for name, array in summary.arrays.items():
        shapes = " or ".join("×".join(map(str, shape)) or "one value" for shape in array.shapes)
        some = array.episodes < len(lengths) or len(array.shapes) > 1
        table.add_row(
            Text(name),
            shapes,
            " or ".join(array.dtypes),
            _range(array),
            Text(f"{array.episodes}", style="red" if some else ""),
        )
    console.print(table)
    if any(array.sampled for array in summary.arrays.values()):
        console.print("~ range of the images of some demonstrations")


def _range(array: ArraySummary) -> str:
    if math.isnan(array.low):
        return "-"
    return f"{'~ ' if array.sampled else ''}{array.low:.4g} .. {array.high:.4g}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
