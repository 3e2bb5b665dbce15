"""``beacon weights RUN``: which demonstrations have the largest and the smallest weights."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from beacon.cli import parsing
from beacon.cli.messages import print_json
from beacon.errors import UserError
from beacon.progress_display import shown_progress

if TYPE_CHECKING:
    from beacon.runs import DomainRecord
    from beacon.runs.demonstration_weights import DemonstrationWeights, DemoWeight

DESCRIPTION = """Show the weights of a run, export them, or select demonstrations by weight.

Examples:
  beacon weights runs/beacon
  beacon weights runs/beacon --json | jq '.demonstrations[:5]'
  beacon weights runs/beacon --export weights.parquet
  beacon weights runs/beacon --export for_lerobot --format lerobot --chunk-size 50
  beacon weights runs/beacon --curate best.hdf5 --keep 0.5
  beacon weights runs/beacon --curate best_lerobot --keep 100

A demonstration's weight is the mean over its windows, at the run's newest checkpoint."""


@dataclass(frozen=True)
class WeightsArguments:
    """What the command line takes."""

    # Folder of the run.
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    # Write the weights here: NAME.parquet (one row a window) and NAME.demonstrations.parquet; or a folder.
    export: Path | None = None
    # parquet, or lerobot: a file for each LeRobot dataset of the run, by the dataset's own frame index.
    format: Literal["parquet", "lerobot"] = "parquet"
    # Also write sarm_progress.parquet for LeRobot's reward-aware weights, for a policy with this chunk size.
    chunk_size: int | None = None
    # Write the source demonstrations with the largest weights here: NAME.hdf5, or a folder for LeRobot.
    curate: Path | None = None
    # How many to keep: a share such as 0.5 or 1.0, or a whole number such as 100.
    keep: str = "0.5"
    # decisions.jsonl: dropped demonstrations are never chosen, kept ones always.
    decisions: Path | None = None
    # Choose from this source domain only, where there are several.
    source_domain: str | None = None
    # The source's dataset, if it was moved after the run.
    source_file: Path | None = None
    # Control steps a second of a LeRobot dataset to be written, where the sources do not say it.
    fps: float | None = None
    # How many demonstrations with the largest and with the smallest weights to list.
    demos: int = 5
    # Print the summary and every source demonstration as JSON instead of tables.
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    # Replace existing files.
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.demos < 0:
            raise UserError(f"--demos {self.demos}: must be at least 0")
        if self.export is not None and self.format == "parquet" and self.export.suffix != ".parquet":
            raise UserError(f"--export {self.export}: must end in .parquet")
        if self.chunk_size is not None and (self.format != "lerobot" or self.chunk_size < 1):
            raise UserError(f"--chunk-size {self.chunk_size}: at least 1, and with --format lerobot")
        if self.curate is not None and self.curate.suffix not in (".hdf5", ".h5", ""):
            raise UserError(f"--curate {self.curate}: must end in .hdf5, or be a folder's name for LeRobot")
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
    if options.json:
        _print_json(weights)
    else:
        _show(weights, options.demos)
    if options.export is not None:
        _export(weights, options)
    if options.curate is not None:
        with shown_progress():
            _curate(weights, options)
    return 0


def _export(weights: DemonstrationWeights, options: WeightsArguments) -> None:
    from beacon.data.weights_export import (
        export_demonstrations,
        export_for_lerobot,
        has_frame_index,
        split_weights,
    )

    assert options.export is not None
    records = weights.records
    datasets = split_weights(
        [record.name for record in records],
        [Path(record.file) for record in records],
        [record.demos for record in records],
        weights.table.weight,
        weights.table.episode,
    )
    if options.format == "parquet":
        weights.export(options.export)
        export_demonstrations(options.export.with_suffix(".demonstrations.parquet"), datasets)
        _say(f"{options.export}: the weights of {len(weights.table)} windows", options)
        return
    datasets = [
        replace(dataset, options=record.read_options)
        for dataset, record in zip(datasets, records, strict=True)
    ]
    indexed = [dataset for dataset in datasets if has_frame_index(dataset)]
    if not indexed:
        raise UserError(f"{weights.run} was not trained on a LeRobot dataset; export with --format parquet")
    for path in export_for_lerobot(options.export, indexed, options.chunk_size):
        _say(str(path), options)


def _curate(weights: DemonstrationWeights, options: WeightsArguments) -> None:
    from beacon.data.curation import Choice, curate
    from beacon.runs.demonstration_weights import how_many
    from beacon.runs.demonstrations import check_unchanged

    assert options.curate is not None
    if options.source_file is not None or options.source_domain is not None:
        sources = [weights.source(options.source_domain)]
    else:
        sources = weights.sources
    demos = [demo for demo in weights.demos() if demo.record in sources]
    chosen = demos[: how_many(_number(options.keep), len(demos))]
    if options.decisions is not None:
        chosen = _decided(demos, chosen, options.decisions)
    choices = []
    for source in sources:
        file = Path(source.file) if options.source_file is None else options.source_file
        check_unchanged(file, source)
        kept = [demo for demo in chosen if demo.record == source]
        notes = {
            demo.name: {
                "beacon_weight": demo.weight,
                "beacon_discrepancy": demo.discrepancy,
                "beacon_loss": demo.loss,
            }
            for demo in kept
        }
        choices.append(Choice(file, tuple(demo.name for demo in kept), notes, source.read_options))
    curate(options.curate, choices, overwrite=options.overwrite, fps=options.fps)
    names = ", ".join(source.name for source in sources)
    _say(f"{options.curate}: {len(chosen)} of {len(demos)} demonstrations of {names}", options)


def _say(text: str, options: WeightsArguments) -> None:
    """Say what was written, beside the JSON that a program reads."""
    print(text, file=sys.stderr if options.json else sys.stdout)


def _decided(demos: list[DemoWeight], chosen: list[DemoWeight], file: Path) -> list[DemoWeight]:
    """The choice with dropped demonstrations taken out and kept ones put in."""
    from beacon.data.decisions import read_decisions

    decisions = read_decisions(file)
    known = {demo.record: _every_name(demo.record) for demo in demos}
    decisions.check({Path(record.file): names for record, names in known.items()})
    dropped, kept = set(), set()
    for record, every_name in known.items():
        dataset = Path(record.file)
        dropped |= {(record, name) for name in decisions.names(dataset, "drop", every_name)}
        kept |= {(record, name) for name in decisions.names(dataset, "keep", every_name)}
    names = {(demo.record, demo.name) for demo in chosen}
    return [demo for demo in demos if (demo.record, demo.name) in (names | kept) - dropped]


def _every_name(record: DomainRecord) -> tuple[str, ...]:
    """All demonstrations of a dataset: the run may have left some out, which are not unknown."""
    from beacon.data import open_dataset

    if not Path(record.file).exists():
        return record.demos
    with open_dataset(record.file, record.read_options) as reader:
        return (*record.demos, *reader.episode_names)


def _number(keep: str) -> int | float:
    """A whole number counts demonstrations, one with a point is a share of them."""
    try:
        number = int(keep) if keep.strip().lstrip("+-").isdigit() else float(keep)
    except ValueError:
        raise UserError(f"--keep {keep}: must be a share such as 0.5, or a whole number") from None
    if isinstance(number, float) and not 0 < number <= 1:
        raise UserError(f"--keep {keep}: must be a share above 0 and at most 1.0, or a whole number")
    return number


def _print_json(weights: DemonstrationWeights) -> None:
    domains = [
        {"name": domain.record.name, "file": domain.record.file, "is_target": domain.record.is_target}
        | {key: value for key, value in vars(domain).items() if key != "record"}
        for domain in weights.domains()
    ]
    demos = [
        {"domain": demo.record.name, "file": demo.record.file}
        | {key: value for key, value in vars(demo).items() if key != "record"}
        for demo in weights.demos()
    ]
    print_json({"run": weights.run, "step": weights.table.step, "domains": domains, "demonstrations": demos})


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
    console.print(_listing("largest weights", demos[:count], several=several))
    console.print(_listing("smallest weights", demos[-count:][::-1], several=several))


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
