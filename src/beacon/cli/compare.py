"""``beacon compare A B [C ...]``: is one policy worse than another?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.runs.comparison import Comparison, PairComparison

DESCRIPTION = """Compare results of evaluations, ours or LeRobot's eval_info.json.

Examples:
  beacon compare runs/cotrain runs/beacon
  beacon compare base/eval_info.json new/eval_info.json || echo the new one is worse

Results from the same initial states are paired (McNemar's exact test, bootstrapped interval of the
difference), others are not (Fisher's exact test, Newcombe's interval). p-values are adjusted by Holm over all
pairs; results that share a letter do not differ. The test is of these policies, not of the methods that
trained them.

Exit code: 0 when no later result is worse than the first, 3 when one is."""
WORSE = 3


@dataclass(frozen=True)
class CompareArguments:
    """What the command line takes."""

    # Result files, run folders with one result, or eval_info.json; the baseline first.
    results: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="A B [C ...]", help_behavior_hint="(at least two)"),
    ]
    # Probability of any false difference.
    alpha: float = 0.05
    # Print plain values instead of tables.
    json: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise UserError(f"--alpha {self.alpha}: must be above 0 and below 1")


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: CompareArguments = parsing.parse(
            CompareArguments, arguments, prog="beacon compare", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.plain import to_plain
    from beacon.runs.comparison import compare_results, read_outcomes

    comparison = compare_results([read_outcomes(path) for path in options.results], options.alpha)
    if options.json:
        print(json.dumps(to_plain(comparison) | {"is_some_worse": comparison.is_some_worse}, indent=1))
    else:
        _show(comparison)
    return WORSE if comparison.is_some_worse else 0


def _show(comparison: Comparison) -> None:
    from beacon.data.errors import printable

    width = max(len(printable(result.path)) for result in comparison.results)
    for result, letters in zip(comparison.results, comparison.letters, strict=True):
        low, high = result.interval
        print(
            f"{printable(result.path):<{width}}  {sum(result.successes)} of {len(result.successes)} "
            f"= {100 * result.rate:.1f}% (95% interval {100 * low:.1f} to {100 * high:.1f})  {letters}"
        )
    for pair in comparison.pairs:
        print(printable(_line(comparison, pair)))


def _line(comparison: Comparison, pair: PairComparison) -> str:
    first, second = comparison.results[pair.first].path, comparison.results[pair.second].path
    adjusted = f", {pair.adjusted_p:.3g} adjusted" if len(comparison.pairs) > 1 else ""
    return (
        f"{second} - {first} = {100 * pair.difference:+.1f} points "
        f"(95% interval {100 * pair.low:+.1f} to {100 * pair.high:+.1f}; "
        f"{'paired' if pair.is_paired else 'not paired'}; p = {pair.p_value:.3g}{adjusted})"
    )
