"""A suite's tables as text, the same for a terminal, for Markdown and for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from beacon.suites.grids import Place, Suite
from beacon.suites.tables import Column, Comparison, Line, Rate, ResultStore, make_columns

NOTHING = "–"


@dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """As Markdown, the first column to the left and the others to the right."""
        lines = [f"### {self.title}", ""]
        lines += ["| " + " | ".join(self.headings) + " |", "|---|" + "---:|" * (len(self.headings) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])


def make_sections(suite: Suite, places: Sequence[Place], store: ResultStore) -> list[Section]:
    """Success in every column, what the weights did, and what else the suite is about."""
    columns = make_columns(suite, places, store)
    found = [success_section(column) for column in columns]
    for make in (faults_section, weights_section):
        section = make(columns)
        if section is not None:
            found.append(section)
    return found + alignment_sections(places, store)


def success_section(column: Column) -> Section:
    """Success rates of one column."""
    first = column.criteria[0]
    rates = [line.rates for line in column.lines if line.rates]
    compared = any(rate.paper is not None for one in rates for rate in one.values())
    headings = ["method", "rollouts"]
    for name in column.criteria:
        headings += [name, "paper"] if compared else [name]
    headings.append(f"{first} by seed, %")
    title = next((line.title for line in column.lines if line.row == column.reference), None)
    if title is not None:
        headings.append(f"{title} is ahead by")
    rows = []
    for line in column.lines:
        if not line.rates:
            rows.append((line.title, *[NOTHING] * (len(headings) - 1)))
            continue
        shown = [line.title, str(line.rates[first].episodes)]
        for name in column.criteria:
            rate = line.rates[name]
            shown += [with_interval(rate), share(rate.paper)] if compared else [with_interval(rate)]
        shown.append(_seeds(line.rates[first]))
        if title is not None:
            shown.append(_against(line.rates[first].against))
        rows.append(tuple(shown))
    return Section(column.title, tuple(headings), tuple(rows))


def faults_section(columns: Sequence[Column]) -> Section | None:
    """How well weights find bad demonstrations."""
    kinds: dict[str, None] = {}
    lines: list[tuple[Column, Line]] = []
    for column in columns:
        for line in column.lines:
            found = [kind for one in _weights(line) for kind in one["flaws"] if kind != "none"]
            kinds.update(dict.fromkeys(found))
            if found:
                lines.append((column, line))
    if not lines:
        return None
    rows = []
    for column, line in lines:
        shown = [f"{column.task}: {line.title}", _numbers([one["auc"] for one in _weights(line)])]
        for kind in kinds:
            shown.append(_numbers([one["flaws"].get(kind, {}).get("auc") for one in _weights(line)]))
        rows.append(tuple(shown))
    note = (
        "How often a sound demonstration outweighs a bad one (AUC; 0.5 is chance, 1 is always), mean over "
        "seeds, with each seed in brackets. No method is told which are bad."
    )
    return Section("What the weights find", ("task and method", "all faults", *kinds), tuple(rows), note)


def weights_section(columns: Sequence[Column]) -> Section | None:
    """Where the mass went, and what the weights follow."""
    rows = []
    for column in columns:
        for line in column.lines:
            found = _weights(line)
            if not found:
                continue
            windows = [sum(d["windows"] for d in one["domains"].values()) for one in found]
            effective = [one["effective_samples"] / n for one, n in zip(found, windows, strict=True)]
            target = [d["mean"] for one in found for d in one["domains"].values() if d["role"] == "target"]
            rows.append(
                (
                    f"{column.title}: {line.title}",
                    _numbers([one["source_mass"] for one in found]),
                    _numbers(target),
                    _numbers(effective),
                    _numbers([one["rank_correlation_with_distance"] for one in found]),
                    _numbers([one["phase_explains"] for one in found]),
                )
            )
    if not rows:
        return None
    note = (
        "At the end of training, mean over seeds with each in brackets. Effective samples: (Σq)²/Σq² as a "
        "share of all windows. Distance: rank correlation of a source demonstration's weight with the "
        "distance of its objects to the nearest target demonstration's; negative means that what the target "
        "does not cover fades. Phase: share of the weights' variance that the phase of the episode explains."
    )
    headings = ("column and method", "mass on source", "mean target weight", "effective", "distance", "phase")
    return Section("What the weights did", headings, tuple(rows), note)


def alignment_sections(places: Sequence[Place], store: ResultStore) -> list[Section]:
    """Separability of the domains, by feature space."""
    rows: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for place in places:
        result = store(place.cell)
        if result is None or "alignment" not in result:
            continue
        for space, numbers in result["alignment"]["numbers"].items():
            group = rows.setdefault((f"{place.task}, {place.gap}", space), {})
            group.setdefault(place.title, []).append(numbers["after"])
    note = (
        "AUC of a cross-fitted classifier of the domain: 0.5 cannot tell them apart, 1 always can. "
        "Neighbours: share of a window's nearest windows that are of the other side, beside what it would be "
        "by chance. d: mean k-NN discrepancy of the source; 1 is as close as targets are to each other."
    )
    return [
        Section(
            f"{where}: {space} features",
            ("method", "AUC", "neighbours", "by chance", "d"),
            tuple(
                (
                    title,
                    *(
                        _numbers([one[name] for one in found])
                        for name in ("auc", "neighbours", "mixed", "discrepancy")
                    ),
                )
                for title, found in group.items()
            ),
            note if place == len(rows) - 1 else "",
        )
        for place, ((where, space), group) in enumerate(rows.items())
    ]


def with_interval(rate: Rate) -> str:
    """A share in per cent, with its interval."""
    return f"{100 * rate.value:.0f}% ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def share(value: float | None) -> str:
    """In per cent."""
    return NOTHING if value is None else f"{100 * value:.0f}%"


def _seeds(rate: Rate) -> str:
    return ", ".join(f"{seed}: {100 * rate.seeds[seed]:.0f}" for seed in sorted(rate.seeds))


def _against(found: Comparison | None) -> str:
    if found is None:
        return NOTHING
    p = f"p = {found.p_value:.2g}" if found.p_value >= 0.001 else "p < 0.001"
    return f"{100 * found.difference:+.0f} points, {p}"


def _weights(line: Line) -> list[Mapping[str, Any]]:
    return [result["weights"] for result in line.results if result.get("weights")]


def _numbers(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    each = f" ({', '.join(f'{value:.2f}' for value in known)})" if len(known) > 1 else ""
    return f"{mean(known):.2f}{each}"
