"""What ``beacon audit`` prints. Names come from files of others: they are shown as text, never as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beacon.data.errors import printable

if TYPE_CHECKING:
    from beacon.audit import AuditResult, SetVerdict


def print_audit(result: AuditResult, most: int) -> None:
    """A line and a table for every set, the worst demonstrations first.

    Args:
        result: of the audit.
        most: demonstrations to list, of every set.
    """
    console = Console(highlight=False, soft_wrap=True)
    wide = console if console.is_terminal else Console(highlight=False, width=160)
    for verdict in result.sets:
        console.print(Text(printable(set_line(verdict))))
        for remark in verdict.remarks:
            console.print(Text(f"  {printable(remark)}", style="yellow"))
        listed = [demo for demo in verdict.worst_first() if demo.evidence]
        if listed and most:
            wide.print(_table(verdict, most))
        if len(listed) > most:
            console.print(Text(f"  and {len(listed) - most} more; --demos {len(listed)} lists all"))
        if verdict.delete_command:
            console.print(Text(printable(verdict.delete_command)))


def set_line(verdict: SetVerdict) -> str:
    """One line about a set: how much of it is sound, and how far it is from the target."""
    from beacon.analysis import wilson

    sound = len(verdict.demos) - len(verdict.accused)
    low, high = wilson(sound, len(verdict.demos))
    parts = [
        f"{verdict.name}: {sound} of {len(verdict.demos)} demonstrations found sound "
        f"({100 * verdict.sound_share:.0f}%, 95% interval {100 * low:.0f} to {100 * high:.0f})"
    ]
    distance = verdict.distance
    if distance.auc is not None:
        parts.append(f"told from the target with AUC {distance.auc:.2f}")
    if distance.target_covered is not None and distance.set_covered is not None:
        parts.append(
            f"covers {100 * distance.target_covered:.0f}% of the target, "
            f"which covers {100 * distance.set_covered:.0f}% of it"
        )
    return "; ".join(parts)


def _table(verdict: SetVerdict, most: int) -> Table:
    table = Table("demonstration", "", "p", "score", "why")
    for demo in [demo for demo in verdict.worst_first() if demo.evidence][:most]:
        table.add_row(
            Text(printable(demo.name)),
            Text("accused" if demo.is_accused else "remark", style="red" if demo.is_accused else ""),
            f"{demo.p_value:.2g}",
            f"{demo.score:.1f}",
            Text(printable("; ".join(item.text for item in demo.evidence))),
        )
    return table
