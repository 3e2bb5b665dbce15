"""A suite's tables as text, the same for a terminal, for Markdown and for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from beacon.suites.differences import MEANINGFUL_SEEDS, Comparison
from beacon.suites.setting import TableEntry
from beacon.suites.suite import Suite
from beacon.suites.tables import Column, Line, Rate, ResultStore, make_columns

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


def make_sections(suite: Suite, entries: Sequence[TableEntry], store: ResultStore) -> list[Section]:
    """Success in every column, what the weights did, and what else the suite is about."""
    columns = make_columns(suite, entries, store)
    sections = [success_section(column) for column in columns] + average_sections(columns)
    for make in (corruption_section, sources_section, weights_section):
        section = make(columns)
        if section is not None:
            sections.append(section)
    return sections + alignment_sections(entries, store)


def success_section(column: Column) -> Section:
    """Success rates of one column."""
    first = column.criteria[0]
    compared = any(rate.paper is not None for line in column.lines for rate in line.rates.values())
    drops = {"R", "S"} <= set(column.criteria)
    headings = ["method", "rollouts"]
    for name in (*column.criteria, *(["R→S drop"] if drops else [])):
        headings += [name, "paper"] if compared else [name]
    headings.append(f"{first} by seed, %")
    title = next((line.title for line in column.lines if line.row == column.reference), None)
    if title is not None:
        headings.append(f"{title} is ahead by")
    lettered = any(line.letters for line in column.lines)
    if lettered:
        headings.append("groups")
    rows = []
    for line in column.lines:
        if not line.rates:
            rows.append((line.title, *[NOTHING] * (len(headings) - 1)))
            continue
        shown = [line.title, str(next(iter(line.rates.values())).episodes)]
        for name in column.criteria:
            rate = line.rates.get(name)
            shown.append(NOTHING if rate is None else with_interval(rate))
            shown += [share(None if rate is None else rate.paper)] if compared else []
        if drops:
            shown += [share(line.drop), share(line.paper_drop)] if compared else [share(line.drop)]
        rate = line.rates.get(first)
        shown.append(NOTHING if rate is None else _seeds(rate))
        if title is not None:
            shown.append(_against(None if rate is None else rate.against))
        if lettered:
            shown.append(line.letters or NOTHING)
        rows.append(tuple(shown))
    return Section(column.title, tuple(headings), tuple(rows))


def average_sections(columns: Sequence[Column]) -> list[Section]:
    """Means over the tasks of each gap, of the criterion that each task is compared by first."""
    gaps: dict[str, list[Column]] = {}
    for column in columns:
        gaps.setdefault(", ".join(filter(None, (column.gap, column.detail))), []).append(column)
    sections = [_average_section(gap, members) for gap, members in gaps.items() if len(members) > 1]
    return [section for section in sections if section.rows]


def _average_section(gap: str, columns: Sequence[Column]) -> Section:
    criteria = {column.task: column.criteria[0] for column in columns}
    rates: dict[str, list[Rate]] = {}  # by the row's title, one a task
    for column in columns:
        for line in column.lines:
            if column.criteria[0] in line.rates:
                rates.setdefault(line.title, []).append(line.rates[column.criteria[0]])
    rows = []
    for title, of_tasks in rates.items():
        if len(of_tasks) < len(columns):
            continue  # a mean over other tasks is not to be compared
        seeds = set.intersection(*(set(rate.seeds) for rate in of_tasks))
        if not seeds:
            continue
        papers = [rate.paper for rate in of_tasks if rate.paper is not None]
        rows.append(
            (
                title,
                share(mean(rate.of_seeds(seeds)[0] for rate in of_tasks)),
                share(mean(papers) if len(papers) == len(columns) else None),
                ", ".join(map(str, sorted(seeds))),
            )
        )
    note = (
        "Over the seeds that all tasks have. Means of "
        + ", ".join(f"{name} ({task})" for task, name in criteria.items())
        + "."
    )
    headings = ("method", "mean", "paper", "seeds")
    return Section(f"mean over tasks, {gap}", headings, tuple(rows), note)


def corruption_section(columns: Sequence[Column]) -> Section | None:
    """How well weights find corrupted demonstrations."""
    names: dict[str, None] = {}
    lines: list[tuple[Column, Line]] = []
    for column in columns:
        for line in column.lines:
            present = [name for weights in _weights(line) for name in weights["flaws"] if name != "none"]
            names.update(dict.fromkeys(present))
            if present:
                lines.append((column, line))
    if not lines:
        return None
    rows = []
    for column, line in lines:
        summaries = _weights(line)
        shown = [f"{column.task}: {line.title}", _numbers([weights["auc"] for weights in summaries])]
        for name in names:
            shown.append(_numbers([weights["flaws"].get(name, {}).get("auc") for weights in summaries]))
        rows.append(tuple(shown))
    note = (
        "How often a sound demonstration outweighs a corrupted one (AUC; 0.5 is chance, 1 is always), mean "
        "over seeds, with each seed in brackets. No method is told which are corrupted."
    )
    headings = ("task and method", "all corruptions", *names)
    return Section("What the weights find", headings, tuple(rows), note)


def sources_section(columns: Sequence[Column]) -> Section | None:
    """Mean weights of the sources where there are several."""
    rows = []
    for column in columns:
        for line in column.lines:
            means: dict[str, list[float]] = {}
            for result in line.results:
                domains = (result.get("weights") or {}).get("domains", {}).values()
                weights = [domain["mean"] for domain in domains if domain["role"] != "target"]
                sources = result["configuration"]["sources"]
                if len(sources) > 1 and len(weights) == len(sources):
                    for source, weight in zip(sources, weights, strict=True):
                        means.setdefault(_source_words(source), []).append(weight)
            if means:
                shown = "; ".join(f"{name} {_numbers(values)}" for name, values in means.items())
                rows.append((f"{column.title}: {line.title}", shown))
    if not rows:
        return None
    note = "Mean weight of a source's windows at the end, mean over seeds with each in brackets."
    return Section("Weights of the sources", ("column and method", "sources"), tuple(rows), note)


def _source_words(source: Mapping[str, Any]) -> str:
    """A source of a stored configuration: how it is corrupted, or its domain."""
    return ", ".join(name for name, _ in source["faults"]) or str(source["domain"])


def weights_section(columns: Sequence[Column]) -> Section | None:
    """Where the mass went, and what the weights follow."""
    rows = []
    for column in columns:
        for line in column.lines:
            summaries = _weights(line)
            if not summaries:
                continue
            domains = [list(weights["domains"].values()) for weights in summaries]
            windows = [sum(domain["windows"] for domain in of_run) for of_run in domains]
            effective = [w["effective_samples"] / n for w, n in zip(summaries, windows, strict=True)]
            target = [domain["mean"] for of_run in domains for domain in of_run if domain["role"] == "target"]
            rows.append(
                (
                    f"{column.title}: {line.title}",
                    _numbers([weights["source_mass"] for weights in summaries]),
                    _numbers(target),
                    _numbers(effective),
                    _numbers([weights["rank_correlation_with_distance"] for weights in summaries]),
                    _numbers([weights["phase_explains"] for weights in summaries]),
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


def alignment_sections(entries: Sequence[TableEntry], store: ResultStore) -> list[Section]:
    """Separability of the domains, by feature space."""
    spaces: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for entry in entries:
        result = store(entry.experiment)
        if result is None or "alignment" not in result:
            continue
        for space, numbers in result["alignment"]["numbers"].items():
            methods = spaces.setdefault((f"{entry.task}, {entry.gap}", space), {})
            methods.setdefault(entry.title, []).append(numbers["after"])
    note = (
        "AUC of a cross-fitted classifier of the domain: 0.5 cannot tell them apart, 1 always can. "
        "Neighbours: share of a window's nearest windows that are of the other side, beside what it would be "
        "by chance. d: mean k-NN discrepancy of the source; 1 is as close as targets are to each other."
    )
    measures = ("auc", "neighbours", "mixed", "discrepancy")
    return [
        Section(
            f"{where}: {space} features",
            ("method", "AUC", "neighbours", "by chance", "d"),
            tuple(
                (title, *(_numbers([numbers[measure] for numbers in seeds]) for measure in measures))
                for title, seeds in methods.items()
            ),
            note if number == len(spaces) else "",
        )
        for number, ((where, space), methods) in enumerate(spaces.items(), start=1)
    ]


def with_interval(rate: Rate) -> str:
    """A share in per cent, with its interval."""
    return f"{100 * rate.value:.0f}% ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def share(value: float | None) -> str:
    """In per cent."""
    return NOTHING if value is None else f"{100 * value:.0f}%"


def _seeds(rate: Rate) -> str:
    return ", ".join(f"{seed}: {100 * rate.seeds[seed]:.0f}" for seed in sorted(rate.seeds))


def _against(comparison: Comparison | None) -> str:
    if comparison is None:
        return NOTHING
    said = f"{100 * comparison.difference:+.0f}"
    if comparison.seeds < MEANINGFUL_SEEDS:
        return f"{said} (1 seed)"
    interval = f"{100 * comparison.low:+.0f} to {100 * comparison.high:+.0f}"
    p = f"p = {comparison.p_value:.2g}" if comparison.p_value >= 0.001 else "p < 0.001"
    return f"{said} ({interval}; {comparison.seeds} seeds; {p})"


def _weights(line: Line) -> list[Mapping[str, Any]]:
    return [result["weights"] for result in line.results if result.get("weights")]


def _numbers(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    each = f" ({', '.join(f'{value:.2f}' for value in known)})" if len(known) > 1 else ""
    return f"{mean(known):.2f}{each}"
