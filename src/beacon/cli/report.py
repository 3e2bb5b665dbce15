"""``beacon report RUN [RUN ...]``: one page that shows what the runs did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from beacon.cli import parsing
from beacon.errors import UserError
from beacon.progress_display import shown_progress

DESCRIPTION = """Write one self-contained HTML page about a run, or one that compares several runs.

Examples:
  beacon report runs/beacon
  beacon report runs/cotrain runs/beacon --out report.html --figures figures
  beacon report runs/beacon --json
  beacon report runs/beacon --live

The page has success rates with intervals and paired tests, learning curves, weights over time and at the
end, losses and discrepancies, a map of the embeddings, the demonstrations with the largest and smallest
weights, and the commands to reproduce it. For what a run lacks the page names the command that makes it."""


@dataclass(frozen=True)
class ReportOptions:
    """What the command line takes."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="(at least one)"),
    ]
    """Run folders, baselines first: differences are later minus earlier."""
    out: Path | None = None
    """The page to write; by default report.html in the run folder, for several runs in the folder above."""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write every figure as SVG and PDF into this folder."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also write what the page says as JSON beside it: report.json."""
    map: Literal["umap", "pca", "none"] = "pca"
    """How embeddings are laid out in the plane: pca is quick, umap shows neighbourhoods and takes long."""
    live: bool = False
    """Serve the page on this machine and keep it up to date while the runs go on."""
    port: int = 8765
    """Port of --live; 0 takes a free one."""


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: ReportOptions = parsing.parse(
            ReportOptions, arguments, prog="beacon report", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    if not options.runs:
        raise UserError("beacon report: name at least one run folder; see beacon report --help")
    if options.live:
        from beacon.report import serve

        return serve(list(options.runs), options.port, projection=options.map)
    from beacon.report import write_report

    runs = [path.resolve() for path in options.runs]
    home = runs[0] if len(runs) == 1 else runs[0].parent
    out = options.out or home / "report.html"
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file")
    numbers = out.with_suffix(".json") if options.json else None
    with shown_progress():
        report = write_report(
            list(options.runs), out, figures=options.figures, projection=options.map, numbers=numbers
        )
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    if numbers is not None:
        print(numbers)
    if options.figures is not None:
        print(f"{len(report.figures)} figures as SVG and PDF in {options.figures}")
    return 0
