"""Differences between the methods of a column. The training seed is the unit: seeds are resampled first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beacon.analysis import compact_letters, compare_methods, holm, pairwise_p_values

LEVEL = 0.05  # below it two rows differ
MEANINGFUL_SEEDS = 2  # with one seed nothing is known of other seeds


@dataclass(frozen=True)
class Outcomes:
    """One evaluation of one seed."""

    states: str  # identifies the initial states
    values: Mapping[str, list[float]]  # criterion -> one number an episode


@dataclass(frozen=True)
class Comparison:
    """The reference minus a row, over the seeds and initial states that both have."""

    difference: float
    low: float  # of the 95% interval over training seeds and initial states
    high: float
    p_value: float  # adjusted by Holm over the rows of the column
    seeds: int
    episodes: int


# Outcomes of a column: row -> seed -> evaluation.
Rows = Mapping[str, Mapping[int, Outcomes]]


def compare_rows(rows: Rows, reference: str | None, criterion: str) -> dict[str, Comparison]:
    """Every row against the reference, by a paired hierarchical bootstrap.

    Args:
        rows: all rows of a column.
        reference: the row that the others are compared with; None: there is none.
        criterion: which outcome.
    """
    if reference is None:
        return {}
    differences = {}
    for row, seeds in rows.items():
        common = _common_seeds(seeds, rows[reference], criterion)
        if row != reference and common:
            differences[row] = compare_methods(
                _values(rows[reference], common, criterion), _values(seeds, common, criterion)
            )
    adjusted = holm([difference.p_value for difference in differences.values()])
    return {
        row: Comparison(d.difference, d.low, d.high, p_value, d.seeds, d.episodes)
        for (row, d), p_value in zip(differences.items(), adjusted, strict=True)
    }


def letters_of(rows: Rows, criterion: str) -> dict[str, str]:
    """Letters of the rows that have all seeds of the column: two that share one do not differ.

    Pairs are tested by the same bootstrap and adjusted by Holm over all pairs; "a" marks the best.

    Args:
        rows: all rows of a column.
        criterion: which outcome.
    """
    seeds = sorted({seed for evaluations in rows.values() for seed in evaluations})
    whole = {row: s for row, s in rows.items() if _common_seeds(s, s, criterion) == seeds}
    first = next(iter(whole.values()), {})
    whole = {row: s for row, s in whole.items() if _common_seeds(s, first, criterion) == seeds}
    if len(seeds) < MEANINGFUL_SEEDS or len(whole) < 2:
        return {}
    outcomes = {row: _values(evaluations, seeds, criterion) for row, evaluations in whole.items()}
    ordered = sorted(outcomes, key=lambda row: -_mean(outcomes[row]))
    p_values = pairwise_p_values([outcomes[row] for row in ordered])
    pairs = [(i, j) for i in range(len(ordered)) for j in range(i + 1, len(ordered))]
    adjusted = holm([float(p_values[pair]) for pair in pairs])
    different = [pair for pair, p_value in zip(pairs, adjusted, strict=True) if p_value < LEVEL]
    return dict(zip(ordered, compact_letters(len(ordered), different), strict=True))


def _common_seeds(first: Mapping[int, Outcomes], second: Mapping[int, Outcomes], criterion: str) -> list[int]:
    """Seeds that both were judged with, from the same initial states, by the criterion."""
    return sorted(
        seed
        for seed, evaluation in first.items()
        if seed in second
        and second[seed].states == evaluation.states
        and criterion in evaluation.values
        and criterion in second[seed].values
    )


def _values(evaluations: Mapping[int, Outcomes], seeds: Sequence[int], criterion: str) -> list[list[float]]:
    return [evaluations[seed].values[criterion] for seed in seeds]


def _mean(values: Sequence[Sequence[float]]) -> float:
    return sum(sum(v) / len(v) for v in values) / len(values)
