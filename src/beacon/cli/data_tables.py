"""What ``beacon data`` prints. Names come from files of others: they are shown as text, never as markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beacon.data.errors import listing, printable

if TYPE_CHECKING:
    from beacon.data.checking import Finding
    from beacon.data.inspection import ArraySummary, DatasetSummary

BARS = " ▁▂▃▄▅▆▇█"
BINS = 16


def print_findings(findings: Sequence[Finding], files: Sequence[Path]) -> None:
    """One line a finding, then how many there are."""
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        colour = "bold red" if finding.severity == "error" else "yellow"
        console.print(Text.assemble((f"{finding.severity:<8}", colour), printable(str(finding))))
    errors = sum(finding.severity == "error" for finding in findings)
    if not findings:
        console.print(Text(printable(f"sound: {', '.join(map(str, files))}")))
    else:
        verdict = "" if errors else "; nothing that stops training"
        console.print(
            Text(f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}{verdict}")
        )


def findings_as_json(findings: Sequence[Finding], files: Sequence[Path]) -> dict[str, Any]:
    """The findings for a program."""
    errors = sum(finding.severity == "error" for finding in findings)
    return {"files": list(files), "errors": errors, "findings": list(findings)}


def summary_as_json(summary: DatasetSummary) -> dict[str, Any]:
    """The contents of a dataset for a program."""
    arrays = {
        name: {
            "shapes": list(array.shapes),
            "dtypes": list(array.dtypes),
            "low": float(array.low),
            "high": float(array.high),
            "is_sampled": bool(array.sampled),
            "demonstrations": array.episodes,
            "names": array.names,
        }
        for name, array in summary.arrays.items()
    }
    lengths = dict(zip(summary.episodes, summary.lengths.tolist(), strict=True))
    return {
        "path": summary.path,
        "format": summary.format_name,
        "demonstrations": lengths,
        "frames": int(summary.lengths.sum()),
        "fps": summary.fps,
        "masks": summary.masks,
        "environment": summary.environment,
        "tasks": summary.tasks,
        "arrays": arrays,
    }


def print_summary(summary: DatasetSummary, mask: str | None) -> None:
    """Facts, a table of the arrays, and one of the dimensions of actions and proprioception."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # in a file or a pipe nothing needs to be cut short
    facts = Table.grid(padding=(0, 2))
    for name, value in summary_facts(summary, mask):
        facts.add_row(Text(name, style="bold"), Text(printable(value)))
    console.print(facts)

    table = Table("array", "shape per step", "dtype", "range", "demos")
    for name, array in summary.arrays.items():
        shapes = " or ".join("×".join(map(str, shape)) or "one value" for shape in array.shapes)
        some = array.episodes < summary.looked_into or len(array.shapes) > 1
        table.add_row(
            Text(printable(name)),
            shapes,
            Text(" or ".join(array.dtypes)),
            _range(array),
            Text(f"{array.episodes}", style="red" if some else ""),
        )
    console.print(table)
    if any(array.sampled for array in summary.arrays.values()):
        console.print("~ range of some demonstrations")
    dimensions = _dimensions(summary)
    if dimensions is not None:
        console.print(dimensions)


def summary_facts(summary: DatasetSummary, mask: str | None) -> list[tuple[str, str]]:
    """What is said above the tables."""
    lengths = sorted(summary.lengths.tolist())
    middle = (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2
    masks = ", ".join(f"{key} ({count})" for key, count in summary.masks.items()) or "none"
    facts = [
        ("file", f"{summary.path} ({summary.format_name})"),
        ("demos", f"{len(lengths)}" + (f" in mask '{mask}'" if mask else "")),
        ("frames", f"{sum(lengths)}"),
        ("lengths", f"shortest {lengths[0]}, median {middle:g}, longest {lengths[-1]}"),
        ("rate", "not said" if summary.fps is None else f"{summary.fps:g} steps a second"),
        ("masks", masks),
        ("environment", summary.environment),
    ]
    if summary.tasks:
        facts.append(("tasks", listing(summary.tasks, 4)))
    return facts


def histogram(values: Any) -> str:
    """How values are distributed between their smallest and largest, as a line of bars."""
    import numpy as np

    finite = values[np.isfinite(values)]
    if not finite.size or finite.min() == finite.max():
        return ""
    counts, _ = np.histogram(finite, BINS)
    heights = np.ceil(counts / counts.max() * (len(BARS) - 1)).astype(int)
    return "".join(BARS[height] for height in heights)


def _dimensions(summary: DatasetSummary) -> Table | None:
    """Ranges of every dimension of the actions and of the proprioception."""
    import numpy as np

    from beacon.data.mapping import END_EFFECTOR

    shown = {"obs/observation.state", *(f"obs/{key}" for key in END_EFFECTOR)} & set(summary.arrays)
    if not shown:  # under names that nobody knows: all vectors, one of which it is
        shown = {key for key in summary.arrays if key.startswith("obs/")}
    shown.add("actions")
    table = Table("dimension", "name", "smallest", "mean", "largest", "distribution")
    for key, array in summary.arrays.items():
        values = array.values
        if key not in shown or values is None:
            continue
        names = array.names or [""] * values.shape[1]
        for d in range(values.shape[1]):
            column = values[:, d][np.isfinite(values[:, d])]
            numbers = [column.min(), column.mean(), column.max()] if column.size else []
            table.add_row(
                Text(f"{printable(key.removeprefix('obs/'))}[{d}]"),
                Text(printable(names[d])),
                *(f"{number:.4g}" for number in numbers or [math.nan] * 3),
                histogram(column),
            )
    return table if table.row_count else None


def _range(array: ArraySummary) -> str:
    if math.isnan(array.low):
        return "-"
    return f"{'~ ' if array.sampled else ''}{array.low:.4g} .. {array.high:.4g}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
