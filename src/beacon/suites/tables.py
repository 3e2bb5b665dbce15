"""Tables from results: seeds pooled, intervals, paired tests, the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beacon.analysis import mcnemar_exact, wilson
from beacon.errors import UserError
from beacon.suites.cell import Cell
from beacon.suites.grids import Place, Suite
from beacon.suites.paper import reported
from beacon.suites.results import Folders, read_result

# What a task is judged by, the one to compare methods by first.
CRITERIA = {"stack": ("R", "S"), "mug-cleanup": ("score", "success"), "threading": ("success",)}
REFERENCES = ("beacon", "stochastic-knn", "chosen")  # rows that the others are tested against


@dataclass(frozen=True)
class Comparison:
    """A row against BEACON over the same seeds and initial states; only whole successes count."""

    pairs: int
    only_row: int
    only_reference: int
    p_value: float

    @property
    def difference(self) -> float:
        """Reference minus row, as a share of the pairs."""
        return (self.only_reference - self.only_row) / max(self.pairs, 1)


@dataclass(frozen=True)
class Rate:
    """A success rate over all seeds of a row."""

    successes: float
    episodes: int
    low: float
    high: float
    seeds: Mapping[int, float]  # seed -> rate
    paper: float | None
    against: Comparison | None = None

    @property
    def value(self) -> float:
        """The share of successes."""
        return self.successes / self.episodes

    def of_seeds(self, chosen: Collection[int]) -> tuple[float, float, float]:
        """The share over these seeds, which all have as many rollouts, with the ends of its interval."""
        episodes = self.episodes * len(chosen) // len(self.seeds)
        share = sum(self.seeds[seed] for seed in chosen) / len(chosen)
        return share, *wilson(share * episodes, episodes)


@dataclass(frozen=True)
class Line:
    """One method in one column."""

    row: str
    title: str
    rates: Mapping[str, Rate]  # by criterion; empty where nothing is done
    results: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def seeds(self) -> list[int]:
        """That are done."""
        first = next(iter(self.rates.values()), None)
        return [] if first is None else sorted(first.seeds)


@dataclass(frozen=True)
class Column:
    """One task and gap."""

    task: str
    gap: str
    detail: str
    criteria: tuple[str, ...]
    reference: str | None
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """For people."""
        return ", ".join(filter(None, (self.task, self.gap, self.detail)))

    @property
    def seeds(self) -> set[int]:
        """That any of the rows has."""
        return {seed for line in self.lines for seed in line.seeds}


class ResultStore:
    """Results by cell, each read once."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._read: dict[str, dict[str, Any] | None] = {}

    def __call__(self, cell: Cell) -> dict[str, Any] | None:
        """The result; None where the cell is not done."""
        if cell.key not in self._read:
            path = self._folders.result(cell)
            self._read[cell.key] = read_result(path) if path.exists() else None
        return self._read[cell.key]


def seeds_in_words(seeds: Iterable[int]) -> str:
    """For people.

    >>> seeds_in_words([0]), seeds_in_words({2, 1})
    ('seed 0', 'seeds 1, 2')
    """
    numbers = sorted(seeds)
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def make_columns(suite: Suite, places: Sequence[Place], store: ResultStore) -> list[Column]:
    """All columns that have a result. Rows that are done only when asked for appear once they are."""
    grouped: dict[tuple[str, str, str], list[Place]] = {}
    for place in places:
        grouped.setdefault(place.column, []).append(place)
    columns = []
    for (task, gap, detail), mine in grouped.items():
        rows: dict[str, list[Place]] = {}
        for place in mine:
            rows.setdefault(place.row, []).append(place)
        outcomes = {row: _outcomes(members, store) for row, members in rows.items()}
        if not any(outcomes.values()):
            continue
        reference = next((row for row in REFERENCES if outcomes.get(row)), None)
        criteria = _criteria(task, outcomes)
        lines = []
        for row, members in rows.items():
            if not outcomes[row] and members[0].extra:
                continue
            rates = {}
            for criterion in criteria if outcomes[row] else ():
                paper = reported(suite.name, row, (task, gap, detail), criterion)
                against = None
                if reference is not None and row != reference:
                    against = compare(outcomes[row], outcomes[reference], criterion)
                rates[criterion] = pool(outcomes[row], criterion, paper, against)
            results = tuple(found for place in members if (found := store(place.cell)) is not None)
            lines.append(Line(row, members[0].title, rates, results))
        columns.append(Column(task, gap, detail, criteria, reference, tuple(lines)))
    return columns


@dataclass(frozen=True)
class Outcomes:
    """One evaluation of one seed."""

    states: str  # identifies the initial states
    values: Mapping[str, list[float]]  # criterion -> one number an episode


def pool(
    outcomes: Mapping[int, Outcomes], criterion: str, paper: float | None, against: Comparison | None
) -> Rate:
    """All seeds together, with Wilson's interval."""
    total = sum(sum(one.values[criterion]) for one in outcomes.values())
    episodes = sum(len(one.values[criterion]) for one in outcomes.values())
    low, high = wilson(total, episodes)
    seeds = {seed: sum(one.values[criterion]) / len(one.values[criterion]) for seed, one in outcomes.items()}
    return Rate(total, episodes, low, high, seeds, paper, against)


def compare(
    row: Mapping[int, Outcomes], reference: Mapping[int, Outcomes], criterion: str
) -> Comparison | None:
    """McNemar's exact test over the pairs (seed, initial state) that both have; None where there are none."""
    first: list[bool] = []
    second: list[bool] = []
    for seed, one in row.items():
        other = reference.get(seed)
        if other is None or other.states != one.states:
            continue
        first += [value >= 1 for value in one.values[criterion]]
        second += [value >= 1 for value in other.values[criterion]]
    if not first:
        return None
    test = mcnemar_exact(first, second)
    return Comparison(len(first), test["only_first"], test["only_second"], test["p_value"])


def _outcomes(members: Sequence[Place], store: ResultStore) -> dict[int, Outcomes]:
    """Of every seed that is done."""
    found = {}
    for place in members:
        result = store(place.cell)
        if result is None or not place.cell.evaluations:
            continue
        try:
            one = result["evaluations"][place.evaluation]
            found[place.cell.seed] = Outcomes(one["states_sha256"], one["outcomes"])
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"the result {place.cell.key} is damaged ({error!r}); delete it to run it again"
            ) from None
    return found


def _criteria(task: str, outcomes: Mapping[str, Mapping[int, Outcomes]]) -> tuple[str, ...]:
    present = {name for seeds in outcomes.values() for one in seeds.values() for name in one.values}
    return tuple(name for name in CRITERIA.get(task, ("success",)) if name in present)
