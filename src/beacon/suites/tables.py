"""Tables from results: seeds pooled, intervals, paired tests, the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beacon.analysis import mcnemar_exact, wilson
from beacon.errors import UserError
from beacon.sim.tasks import known_task
from beacon.suites.experiment import Experiment
from beacon.suites.paper import reported
from beacon.suites.results import Folders, read_result
from beacon.suites.setting import TableEntry
from beacon.suites.suite import Suite

REFERENCES = (
    "beacon",
    "beacon-future",
    "stochastic-knn",
    "chosen",
)  # rows that the others are tested against


@dataclass(frozen=True)
class Comparison:
    """A row against the reference over the same seeds and initial states; only whole successes count."""

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
    rates: Mapping[str, Rate]  # by criterion; without those that its results do not have
    results: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def seeds(self) -> list[int]:
        """That are done."""
        first = next(iter(self.rates.values()), None)
        return [] if first is None else sorted(first.seeds)

    @property
    def drop(self) -> float | None:
        """How much of R is lost by S, the stricter criterion; None where there is nothing to lose."""
        return _relative_drop(*(self.rates[name].value if name in self.rates else None for name in "RS"))

    @property
    def paper_drop(self) -> float | None:
        """The same of the paper's numbers."""
        return _relative_drop(*(self.rates[name].paper if name in self.rates else None for name in "RS"))


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
    """Results by experiment, each read once."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._read: dict[str, dict[str, Any] | None] = {}

    def __call__(self, experiment: Experiment) -> dict[str, Any] | None:
        """The result; None where the experiment is not done."""
        if experiment.key not in self._read:
            path = self._folders.result(experiment)
            self._read[experiment.key] = read_result(path) if path.exists() else None
        return self._read[experiment.key]


def _relative_drop(loose: float | None, strict: float | None) -> float | None:
    return None if not loose or strict is None else 1 - strict / loose


def seeds_in_words(seeds: Iterable[int]) -> str:
    """For people.

    >>> seeds_in_words([0]), seeds_in_words({2, 1})
    ('seed 0', 'seeds 1, 2')
    """
    numbers = sorted(seeds)
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def make_columns(suite: Suite, entries: Sequence[TableEntry], store: ResultStore) -> list[Column]:
    """All columns that have a result. Rows that are run only when asked for appear once they are."""
    by_column: dict[tuple[str, str, str], dict[str, list[TableEntry]]] = {}
    for entry in entries:
        by_column.setdefault(entry.column, {}).setdefault(entry.row, []).append(entry)
    columns = (_make_column(suite.name, key, rows, store) for key, rows in by_column.items())
    return [column for column in columns if column is not None]


def _make_column(
    suite: str, key: tuple[str, str, str], rows: Mapping[str, Sequence[TableEntry]], store: ResultStore
) -> Column | None:
    outcomes = {row: _outcomes(entries, store) for row, entries in rows.items()}
    if not any(outcomes.values()):
        return None
    reference = next((row for row in REFERENCES if outcomes.get(row)), None)
    criteria = _criteria(key[0], outcomes)
    lines = []
    for row, entries in rows.items():
        if not outcomes[row] and entries[0].extra:
            continue
        rates = {}
        for criterion in criteria:
            if not _has(outcomes[row], criterion):
                continue
            against = None
            if reference is not None and row != reference and _has(outcomes[reference], criterion):
                against = compare(outcomes[row], outcomes[reference], criterion)
            rates[criterion] = pool(outcomes[row], criterion, reported(suite, row, key, criterion), against)
        results = [store(entry.experiment) for entry in entries]
        lines.append(
            Line(row, entries[0].title, rates, tuple(result for result in results if result is not None))
        )
    return Column(*key, criteria, reference, tuple(lines))


@dataclass(frozen=True)
class Outcomes:
    """One evaluation of one seed."""

    states: str  # identifies the initial states
    values: Mapping[str, list[float]]  # criterion -> one number an episode


def pool(
    outcomes: Mapping[int, Outcomes], criterion: str, paper: float | None, against: Comparison | None
) -> Rate:
    """All seeds together, with Wilson's interval."""
    values = {seed: evaluation.values[criterion] for seed, evaluation in outcomes.items()}
    total = sum(map(sum, values.values()))
    episodes = sum(map(len, values.values()))
    low, high = wilson(total, episodes)
    seeds = {seed: sum(of_seed) / len(of_seed) for seed, of_seed in values.items()}
    return Rate(total, episodes, low, high, seeds, paper, against)


def compare(
    row: Mapping[int, Outcomes], reference: Mapping[int, Outcomes], criterion: str
) -> Comparison | None:
    """McNemar's exact test over the pairs (seed, initial state) that both have; None where there are none."""
    first: list[bool] = []
    second: list[bool] = []
    for seed, evaluation in row.items():
        other = reference.get(seed)
        if other is None or other.states != evaluation.states:
            continue
        first += [value >= 1 for value in evaluation.values[criterion]]
        second += [value >= 1 for value in other.values[criterion]]
    if not first:
        return None
    test = mcnemar_exact(first, second)
    return Comparison(len(first), test["only_first"], test["only_second"], test["p_value"])


def _outcomes(entries: Sequence[TableEntry], store: ResultStore) -> dict[int, Outcomes]:
    """Of every seed that is done."""
    outcomes = {}
    for entry in entries:
        experiment = entry.experiment
        result = store(experiment)
        if result is None or not experiment.evaluations:
            continue
        try:
            evaluation = result["evaluations"][entry.evaluation]
            outcomes[experiment.seed] = Outcomes(evaluation["states_sha256"], evaluation["outcomes"])
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"the result {experiment.key} is damaged ({error!r}); delete it to run it again"
            ) from None
    return outcomes


def _criteria(task: str, outcomes: Mapping[str, Mapping[int, Outcomes]]) -> tuple[str, ...]:
    """Those that the task reports and that some result has: older ones may lack some."""
    known = known_task(task)
    return tuple(
        name
        for name in (("success",) if known is None else known.reported)
        if any(_has(seeds, name) for seeds in outcomes.values())
    )


def _has(outcomes: Mapping[int, Outcomes], criterion: str) -> bool:
    """Whether every seed, and there is one, was judged by the criterion."""
    return bool(outcomes) and all(criterion in evaluation.values for evaluation in outcomes.values())
