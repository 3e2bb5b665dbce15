"""``beacon verify``: is a run folder as it was written, and do its weights keep their constraints?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.cli.messages import print_json
from beacon.errors import UserError
from beacon.progress_display import shown_progress

if TYPE_CHECKING:
    from beacon.runs.weight_tables import WindowTable

TOLERANCE = 1e-9  # relative, of bounds and budget

DESCRIPTION = """Check a run folder: configuration, checksums of its checkpoints, hashes of its data, weights.

Examples:
  beacon verify runs/beacon
  beacon verify runs/beacon --json | jq .fits

Exit codes: 0 everything fits, 1 something does not, 2 this is no run folder."""


@dataclass(frozen=True)
class VerifyArguments:
    """What the command line takes."""

    # Folder of the run.
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    # Print what does not fit as JSON.
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: VerifyArguments = parsing.parse(
            VerifyArguments, arguments, prog="beacon verify", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.runs.run import Run

    if not Run(options.run).exists:
        raise UserError(f"{options.run} is not a run: it has no config.yaml")
    with shown_progress():
        checks = dict(_checks(options.run))
    problems = sum(map(len, checks.values()))
    if options.json:
        print_json({"run": options.run, "fits": not problems, "complaints": checks})
        return 1 if problems else 0
    for name, complaints in checks.items():
        print(f"{name}: {'fits' if not complaints else ''}")
        for problem in complaints:
            print(f"  {problem}")
    print(_sum_up(problems))
    return 1 if problems else 0


def _sum_up(problems: int) -> str:
    if not problems:
        return "everything fits"
    return "1 thing does not fit" if problems == 1 else f"{problems} things do not fit"


def _checks(run: Path) -> Iterator[tuple[str, list[str]]]:
    """Every check with what does not fit."""
    yield "configuration", _complaints(lambda: _read_config(run))
    yield "data", _data(run)
    yield "checkpoints", _checkpoints(run)
    yield "weights", _complaints(lambda: _check_weights(run))


def _complaints(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except UserError as error:
        return [str(error)]
    return []


def _read_config(run: Path) -> None:
    from beacon.training.stored_config import read_config

    read_config(run)


def _data(run: Path) -> list[str]:
    """Demonstrations that have changed since the run; those that are not here any more are said, too."""
    from beacon.runs.demonstrations import check_unchanged
    from beacon.runs.run import Run

    try:
        records = Run(run).domains
    except UserError as error:
        return [str(error)]
    complaints = []
    for record in records:
        file = Path(record.file)
        if not file.exists():
            complaints.append(f"{record.name}: {file} is not here any more")
            continue
        complaints += _complaints(partial(check_unchanged, file, record))
    return complaints


def _checkpoints(run: Path) -> list[str]:
    from beacon.runs.checksums import find_damage
    from beacon.runs.run import Run

    steps = Run(run).checkpoints.steps()
    complaints = [line for folder in steps.values() for line in find_damage(folder)]
    if steps:  # a run may have none yet
        complaints += _complaints(lambda: _find_newest(run))
    return complaints


def _find_newest(run: Path) -> None:
    """That ``last`` names a checkpoint."""
    from beacon.runs.checkpoints import find_checkpoint

    find_checkpoint(run)


def _check_weights(run: Path) -> None:
    """Tables are as they were written; weights are finite, not negative, one for every window of the data."""
    import numpy as np

    from beacon.runs.run import Run

    reader = Run(run)
    table, _ = reader.windows, reader.episodes  # reading compares the checksums of their pages
    if table is None:
        return
    if not np.isfinite(table.weight).all() or (table.weight < 0).any():
        raise UserError(f"{run}: its weights are not all finite and at least 0")
    windows = sum(sum(record.lengths) for record in reader.domains)
    if len(table) != windows:
        raise UserError(f"{run}: has weights of {len(table)} windows, and data of {windows}")
    if table.loss is not None:  # of a refresh, not of what was known before the run
        _check_constraints(run, table, next((one.name for one in reader.domains if one.is_target), None))


def _check_constraints(run: Path, table: WindowTable, target: str | None) -> None:
    """BEACON's weights keep the bounds and the budget that its options say."""
    import numpy as np

    from beacon.training.stored_config import read_config
    from beacon.weighting import WeightingConfig
    from beacon.weighting.bounds import weight_bounds, weight_budget
    from beacon.weighting.samples import Samples

    try:
        config = read_config(run)
    except UserError:  # said already
        return
    weighting = getattr(config.options, "weighting", None)
    if target is None or not isinstance(weighting, WeightingConfig) or config.data.decisions:
        return  # of a method without them, or changed by what somebody decided
    samples = Samples.read(np.array(table.domains)[table.domain], target)
    lower, upper = weight_bounds(weighting, samples)
    if weighting.is_natural:  # the bound on the target follows from the weights before
        upper = np.full(len(samples), weighting.q_max)
    slack = TOLERANCE * np.maximum(1.0, upper)
    outside = np.flatnonzero((table.weight < lower - slack) | (table.weight > upper + slack))
    if outside.size:
        first = int(outside[0])
        raise UserError(
            f"{run}: weights of {outside.size} windows are out of their bounds; that of window {first} is "
            f"{table.weight[first]:g}, not from {lower[first]:g} to {upper[first]:g}"
        )
    budget, total = weight_budget(weighting, samples), float(table.weight.sum())
    # Caps of several sources scale with the weights of these, and may leave less room than the budget.
    may_be_less = len(samples.source_labels) > 1 and not weighting.pool_sources
    if total > budget * (1 + TOLERANCE) or (total < budget * (1 - TOLERANCE) and not may_be_less):
        raise UserError(f"{run}: its weights sum to {total:.9g}, and their budget is {budget:.9g}")
