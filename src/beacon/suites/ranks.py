"""Do two presets rank the methods alike? If so, the cheaper one is enough to choose between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import spearman
from beacon.suites.tables import Column, Line


@dataclass(frozen=True)
class RankAgreement:
    """One column of a table at two presets."""

    column: str
    methods: int  # that both have
    seeds: int  # that both have of every method
    correlation: float | None  # Spearman's; None for fewer than four methods


def rank_agreement(first: Sequence[Column], second: Sequence[Column]) -> list[RankAgreement]:
    """Rank correlation over methods of the rates of two presets, for every column that both have.

    Args:
        first: columns of one preset.
        second: columns of the other.
    """
    others = {column.title: column for column in second}
    return [_agree(column, others[column.title]) for column in first if column.title in others]


def _agree(first: Column, second: Column) -> RankAgreement:
    criterion = first.criteria[0] if first.criteria else "success"
    ours, theirs = (
        {line.row: line for line in column.lines if criterion in line.rates} for column in (first, second)
    )
    shared = [row for row in ours if row in theirs]
    common = [set(ours[row].seeds) & set(theirs[row].seeds) for row in shared]
    seeds = set.intersection(*common) if common else set()
    if not seeds:
        return RankAgreement(first.title, len(shared), 0, None)

    def rates(lines: dict[str, Line]) -> NDArray[np.float64]:
        return np.array([lines[row].rates[criterion].of_seeds(sorted(seeds))[0] for row in shared])

    return RankAgreement(first.title, len(shared), len(seeds), spearman(rates(ours), rates(theirs)))
