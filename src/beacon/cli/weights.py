"""``beacon weights RUN``: which demonstrations a run kept and which it let fade."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.runs.demonstration_weights import DemonstrationWeights, DemoWeight

DESCRIPTION = """Show the weights that a run has learned, export them, or choose demonstrations by them.

Examples:
  beacon weights runs/beacon
  beacon weights runs/beacon --export weights.parquet
  beacon weights runs/beacon --curate best.hdf5 --keep 0.5

A demonstration's weight is the mean over its windows, at the run's newest checkpoint."""


@dataclass(frozen=True)
class WeightsArguments:
    """What the command line takes."""

    # Folder of the run.
    run: Annotated[Path, tyro.conf.Positional]
    # Write one row per window here, as Parquet.
    export: Path | None = None
    # Write the source demonstrations with the largest weights here, as a new dataset.
    curate: Path | None = None
    # How many of them: a share such as 0.5 or 1.0, or a whole number such as 100.
    keep: str = "0.5"
    # Which source domain to choose from, where there are several.
    source_domain: str | None = None
    # Where the source's dataset is now, if it was moved since the run.
    source_file: Path | None = None
    # Demonstrations to list at either end.
    demos: int = 5
    # Replace files that are there.
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.demos < 0:
            raise UserError(f"--demos {self.demos}: must be at least 0")
        if self.export is not None and self.export.suffix != ".parquet":
            raise UserError(f"--export {self.export}: must end in .parquet")
        if self.curate is not None and self.curate.suffix not in (".hdf5", ".h5"):
            raise UserError(f"--curate {self.curate}: must end in .hdf5")
        for name, path in (("export", self.export), ("curate", self.curate)):
            if path is not None and path.exists() and not self.overwrite:
                raise UserError(f"--{name} {path}: exists already; choose another name, or say --overwrite")
        _number(self.keep)


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: WeightsArguments = parsing.parse(
            WeightsArguments, arguments, prog="beacon weights", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.runs.demonstration_weights import load_demonstration_weights

    weights = load_demonstration_weights(options.run)
    _show(weights, options.demos)
    if options.export is not None:
        weights.export(options.export)
        print(f"{options.export}: the weights of {len(weights.table)} windows")
    if options.curate is not None:
        source = weights.source(options.source_domain)
        chosen = weights.curate(
            options.curate,
            _number(options.keep),
            source=source,
            file=options.source_file,
            overwrite=options.overwrite,
        )
        print(f"{options.curate}: {len(chosen)} of {len(source.demos)} demonstrations of {source.name}")
    return 0


def _number(keep: str) -> int | float:
    """A whole number counts demonstrations, one with a point is a share of them."""
    try:
        return int(keep) if keep.strip().lstrip("+-").isdigit() else float(keep)
    except ValueError:
        raise UserError(f"--keep {keep}: must be a share such as 0.5, or a whole number") from None


def _show(weights: DemonstrationWeights, count: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beacon.runs.demonstration_weights import QUANTILES

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # in a file or a pipe nothing needs to be cut short
    console.print(Text(f"{weights.run}, step {weights.table.step}"))
    quantiles = [f"{100 * level:g}%" for level in QUANTILES]
    domains = Table(
        "domain", "", "demos", "windows", "mean", *quantiles, "mass", "share", "effective windows"
    )
    for domain in weights.domains():
        domains.add_row(
            Text(domain.record.name),
            "target" if domain.record.is_target else "source",
            f"{len(domain.record.demos)}",
            f"{domain.windows}",
            f"{domain.mean:.3f}",
            *(f"{value:.3f}" for value in domain.quantiles),
            f"{domain.mass:.1f}",
            f"{100 * domain.share:.1f}%",
            f"{domain.effective_sample_size:.0f}",
        )
    console.print(domains)
    demos = weights.demos()
    if not count or not demos:
        return
    several = len(weights.sources) > 1
    if len(demos) <= 2 * count:
        console.print(_listing("source demonstrations, the heaviest first", demos, several=several))
        return
    console.print(_listing("most kept", demos[:count], several=several))
    console.print(_listing("most faded", demos[-count:][::-1], several=several))


def _listing(title: str, demos: list[DemoWeight], *, several: bool) -> object:
    from rich.table import Table
    from rich.text import Text

    listed = Table(title=title, title_justify="left")
    for name in ("demonstration", *(["domain"] if several else []), "file", "weight", "discrepancy", "loss"):
        listed.add_column(name)
    for demo in demos:
        row = [demo.name, *([demo.record.name] if several else []), Path(demo.record.file).name]
        numbers = (demo.weight, demo.discrepancy, demo.loss)
        listed.add_row(*map(Text, row), *("-" if math.isnan(value) else f"{value:.3f}" for value in numbers))
    return listed
