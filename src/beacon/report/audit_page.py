"""audit.html: what an audit found, on one page that needs no other file and runs no script."""

from __future__ import annotations

from beacon import __version__
from beacon.analysis import wilson
from beacon.audit.run import AuditResult, DemoVerdict, SetVerdict
from beacon.data.errors import printable
from beacon.report.markup import Content, Markup, table, tag
from beacon.report.static_page import facts, percent, static_page


def draw_audit(result: AuditResult) -> str:
    """The page.

    Args:
        result: of the audit.
    """
    target = f"{result.target} with {result.target_demos} demonstrations"
    made = f"Audit by BEACON {__version__}; the target is {target}."
    sections = [_section(number, verdict) for number, verdict in enumerate(result.sets)]
    return static_page("Which demonstrations can I trust?", made, sections)


def _section(number: int, verdict: SetVerdict) -> Markup:
    worst = verdict.worst_first()
    told = [demo for demo in worst if demo.evidence]
    command = verdict.delete_command
    if told:
        rows = table(
            ("demonstration", "accused", "p", "score", "why"), [_row(demo) for demo in told], numeric=(2, 3)
        )
        rest = f"Nothing is to be said of the other {len(worst) - len(told)} demonstrations."
    else:
        rows, rest = Markup(""), "Nothing is to be said against any demonstration."
    return tag(
        "section",
        tag("h2", _text(verdict.name)),
        tag("p", _text(verdict.path), class_="note"),
        _facts(verdict),
        [tag("p", _text(remark), class_="missing") for remark in verdict.remarks],
        rows,
        tag("p", rest, class_="note"),
        [tag("p", "To remove the accused with LeRobot:"), tag("pre", _text(command))] if command else None,
        id=f"set-{number}",
    )


def _facts(verdict: SetVerdict) -> Markup:
    sound = len(verdict.demos) - len(verdict.accused)
    low, high = wilson(sound, len(verdict.demos))
    distance = verdict.distance
    return facts(
        [
            ("found sound", f"{sound} of {len(verdict.demos)} ({100 * low:.0f} to {100 * high:.0f}%)"),
            ("told from the target (AUC)", _number(distance.auc)),
            ("of the target covered", percent(distance.target_covered)),
            ("of it covered by the target", percent(distance.set_covered)),
        ]
    )


def _row(demo: DemoVerdict) -> list[Content]:
    reasons = [
        tag("div", _text(item.text), class_=None if item.is_fault else "note") for item in demo.evidence
    ]
    accused = "yes" if demo.is_accused else ""
    return [_text(demo.name), accused, f"{demo.p_value:.2g}", f"{demo.score:.1f}", reasons]


def _text(text: str) -> str:
    return printable(text)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
