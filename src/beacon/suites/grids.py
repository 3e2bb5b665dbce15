"""The suites: grids of cells, as functions of a scale and a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from beacon.errors import UserError
from beacon.suites.cell import Cell, DatasetSpec, EvaluationSpec
from beacon.suites.datasets import faults_of
from beacon.suites.rows import COMPARED, ROWS, TWO_SOURCES, Row
from beacon.suites.scales import Scale

SOURCE_SEED, SECOND_SOURCE_SEED = 0, 1
TARGET_SEED = 101  # plus the seed of the run: every seed has target demonstrations of its own
TEST_SEED = 1000  # of the initial states that results are about
BAD_SHARE = 0.3  # of the contaminated source
Lookup = Callable[[Cell], Mapping[str, Any] | None]  # the result of a cell, None where it is not done
TASKS = ("stack", "mug-cleanup", "threading")
TEXTURE, VIEW, REAL = "texture", "texture-view", "real-proxy"


@dataclass(frozen=True)
class Place:
    """Where one evaluation of a cell stands in a suite's table."""

    row: str
    title: str
    task: str
    gap: str
    cell: Cell
    evaluation: int = 0  # which of the cell's
    detail: str = ""  # what else tells two columns apart, as n=5
    extra: bool = False

    @property
    def column(self) -> tuple[str, str, str]:
        """Task, gap and detail."""
        return self.task, self.gap, self.detail


@dataclass(frozen=True)
class Suite:
    """A table of the paper, or of ours."""

    name: str
    about: str
    build: Callable[[Scale, int], Iterator[Place]]  # all places of one seed, in the order of work
    # Where what comes next depends on results: all places so far, of all seeds.
    grow: Callable[[Scale, Sequence[int], Lookup], list[Place]] | None = None


@dataclass(frozen=True)
class Setting:
    """What all methods of a column share."""

    scale: Scale
    task: str
    seed: int
    domain: str
    target_demos: int
    evaluations: tuple[EvaluationSpec, ...]
    region: str = "train"
    faults: tuple[tuple[str, float], ...] = ()

    @classmethod
    def gap(cls, scale: Scale, task: str, domain: str, seed: int, **more: Any) -> Setting:
        """A target in another domain, evaluated there."""
        evaluation = EvaluationSpec(domain, "train", scale.episodes, TEST_SEED)
        values: dict[str, Any] = {"target_demos": scale.target_demos, "evaluations": (evaluation,), **more}
        return cls(scale, task, seed, domain, **values)

    def source(self) -> DatasetSpec:
        """The one source."""
        scale = self.scale
        return DatasetSpec(
            self.task, "source", scale.source_demos, scale.size, seed=SOURCE_SEED, faults=self.faults
        )

    def two_sources(self) -> tuple[DatasetSpec, DatasetSpec]:
        """Half of the demonstrations from the source domain, half with another table."""
        half = replace(self.source(), demos=self.scale.source_demos // 2)
        return half, replace(half, domain=TEXTURE, seed=SECOND_SOURCE_SEED)

    def target(self) -> DatasetSpec:
        """All target demonstrations of the seed, of which a cell takes the first ones."""
        scale = self.scale
        pool = max(*scale.scaling, scale.target_demos, scale.real_demos)
        return DatasetSpec(self.task, self.domain, pool, scale.size, self.region, TARGET_SEED + self.seed)

    def cell(self, row: Row, **changes: Any) -> Cell:
        """The cell of a method."""
        scale = self.scale
        values: dict[str, Any] = {
            "method": row.method,
            "sources": (self.source(),),
            "target": self.target(),
            "target_demos": self.target_demos,
            "evaluations": self.evaluations,
            "preset": scale.preset,
            "seed": self.seed,
            "options": dict(row.options),
            "optimization": dict(scale.optimization),
            "policy": dict(scale.policy),
            "image_size": scale.image_size,
            "match": None if row.match is None else self.cell(ROWS[row.match]),
        }
        return Cell(**{**values, **changes})


def _sim2sim(scale: Scale, seed: int) -> Iterator[Place]:
    for task in TASKS:
        for gap in (TEXTURE, VIEW):
            setting = Setting.gap(scale, task, gap, seed)
            for name in COMPARED:
                row = ROWS[name]
                yield Place(name, row.title, task, gap, setting.cell(row), extra=row.extra)


def _sim2real(scale: Scale, seed: int) -> Iterator[Place]:
    for task in ("stack", "mug-cleanup"):
        evaluations = tuple(
            EvaluationSpec(REAL, region, scale.real_episodes, TEST_SEED) for region in ("target", "ood")
        )
        setting = Setting(scale, task, seed, REAL, scale.real_demos, evaluations, region="target")
        for name in (*COMPARED, *TWO_SOURCES):
            row = ROWS[name]
            several = {"sources": setting.two_sources()} if name in TWO_SOURCES else {}
            cell = setting.cell(row, **several)
            for number, evaluation in enumerate(evaluations):
                yield Place(name, row.title, task, REAL, cell, number, evaluation.region, row.extra)


def _ablation(scale: Scale, seed: int) -> Iterator[Place]:
    for gap in (VIEW, TEXTURE):  # the paper's first
        setting = Setting.gap(scale, "stack", gap, seed)
        for granularity in ("window", "demo"):
            for update in ("stochastic", "convex"):
                for discrepancy in ("localized", "knn", "classifier"):
                    weighting = {"update": update, "discrepancy": discrepancy, "granularity": granularity}
                    per_window = granularity == "window"
                    name = f"{update}-{discrepancy}" + ("" if per_window else "-demo")
                    title = f"{update}, {discrepancy}" + ("" if per_window else ", per demonstration")
                    row = Row(name, title, "beacon-paper", {"weighting": weighting}, extra=not per_window)
                    yield Place(name, title, "stack", gap, setting.cell(row), extra=row.extra)


def _scaling(scale: Scale, seed: int) -> Iterator[Place]:
    for gap in (TEXTURE, VIEW):
        for count in scale.scaling:
            setting = Setting.gap(scale, "stack", gap, seed, target_demos=count)
            rows = ("target-only", "cotrain", "cotrain-natural", "beacon-paper", "beacon", "beacon-future")
            for name in rows:
                row = ROWS[name]
                cell = setting.cell(row)
                yield Place(name, row.title, "stack", gap, cell, detail=f"n={count}", extra=row.extra)


def _contaminated(scale: Scale, seed: int) -> Iterator[Place]:
    for task in TASKS:
        setting = Setting.gap(scale, task, TEXTURE, seed, faults=faults_of(task, BAD_SHARE))
        for name in (*COMPARED, "beacon-joint"):
            row = ROWS[name]
            yield Place(name, row.title, task, TEXTURE, setting.cell(row), extra=row.extra)


def _alignment(scale: Scale, seed: int) -> Iterator[Place]:
    for task in ("stack", "mug-cleanup"):
        setting = Setting.gap(scale, task, TEXTURE, seed, evaluations=())
        for name in ("source-only", "target-only", "cotrain", "mmd", "uot", "beacon-paper", "beacon"):
            row = ROWS[name]
            yield Place(name, row.title, task, TEXTURE, setting.cell(row, align=True))


# The start is BEACON with its defaults; one parameter after the other takes its best value.
SWEEP: dict[str, tuple[float, ...]] = {
    "lambda_1": (0.001, 0.01, 0.1),
    "lambda_2": (0.001, 0.01, 0.1),
    "lambda_d": (0.05, 0.1, 0.4, 1.0),
    "alpha": (0.2, 0.3, 0.4, 0.5, 0.6),
}
SELECTION_SEED = 2000  # of the initial states that decide, none of which is a test state


def _sensitivity(scale: Scale, seeds: Sequence[int], lookup: Lookup) -> list[Place]:
    """Greedy coordinates: all places as far as results tell where to go next."""
    found: list[Place] = []
    chosen: dict[str, Any] = {}
    for name, values in SWEEP.items():
        tried = {value: [_swept(scale, seed, {**chosen, name: value}) for seed in seeds] for value in values}
        for seed_place in range(len(seeds)):
            for value, mine in tried.items():
                found += _both_states(f"{name}={value:g}", mine[seed_place], name)
        rates = {value: _selection_rate(mine, lookup) for value, mine in tried.items()}
        known = [(rate, value) for value, rate in rates.items() if rate is not None]
        if len(known) < len(values):
            return found
        best = max(rate for rate, _ in known)
        chosen[name] = next(value for rate, value in known if rate == best)
    for seed in seeds:
        found += _both_states("start", _swept(scale, seed, {}), "chosen")
        found += _both_states("chosen", _swept(scale, seed, chosen), "chosen")
    return found


def _swept(scale: Scale, seed: int, values: Mapping[str, Any]) -> Cell:
    evaluations = tuple(
        EvaluationSpec(TEXTURE, "train", scale.episodes, states) for states in (SELECTION_SEED, TEST_SEED)
    )
    setting = Setting.gap(scale, "stack", TEXTURE, seed, evaluations=evaluations)
    return setting.cell(Row("", "", "beacon", {"weighting": values}))


def _both_states(name: str, cell: Cell, group: str) -> list[Place]:
    return [
        Place(name, name, "stack", TEXTURE, cell, number, f"{group}, {states} states")
        for number, states in enumerate(("selection", "test"))
    ]


def _selection_rate(tried: Sequence[Cell], lookup: Lookup) -> float | None:
    """Over all seeds; None while one is missing."""
    rates = []
    for cell in tried:
        result = lookup(cell)
        if result is None:
            return None
        rates.append(float(result["evaluations"][0]["rates"]["success"]["rate"]))
    return sum(rates) / len(rates)


def _no_places(scale: Scale, seed: int) -> Iterator[Place]:
    return iter(())


SUITES = {
    suite.name: suite
    for suite in (
        Suite("sim2sim", "three tasks, two gaps, all methods and the mass-matched control", _sim2sim),
        Suite("sim2real", "a stand-in for a real robot, in and out of distribution", _sim2real),
        Suite("ablation", "two updates of the weights by three discrepancies", _ablation),
        Suite("scaling", "success against the number of target demonstrations", _scaling),
        Suite("contaminated", "30% of the source is bad: success, and who finds it", _contaminated),
        Suite("alignment", "maps of the embeddings, and how well the domains mix in them", _alignment),
        Suite("sensitivity", "greedy sweep of λ1, λ2, λ_d and α", _no_places, _sensitivity),
    )
}


@dataclass(frozen=True)
class Choice:
    """Which part of a suite."""

    seeds: tuple[int, ...] = (0, 1, 2)
    methods: tuple[str, ...] = ()  # rows or methods; none: all but the extra ones
    tasks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def find_suite(name: str) -> Suite:
    """A suite by name."""
    if name not in SUITES:
        raise UserError(f"there is no suite '{name}'; choose one of {', '.join(SUITES)}")
    return SUITES[name]


def places(
    suite: Suite, scale: Scale, choice: Choice, lookup: Lookup | None = None, *, extra: bool = False
) -> list[Place]:
    """The chosen places; all methods of one seed come before the next seed.

    ``lookup`` tells results, for a suite that depends on them. ``extra``: also rows that are only done when
    asked for.
    """
    if suite.grow is not None:
        found = suite.grow(scale, choice.seeds, lookup or (lambda _: None))
    else:
        found = [place for seed in choice.seeds for place in suite.build(scale, seed)]
    rows = {place.row for place in found}
    for option, wanted, known in (
        ("--methods", choice.methods, rows | {place.cell.method for place in found}),
        ("--tasks", choice.tasks, {p.task for p in found}),
        ("--gaps", choice.gaps, {p.gap for p in found}),
    ):
        for name in wanted:
            if name not in known:
                raise UserError(f"{option} {name}: {suite.name} has {', '.join(sorted(known))}")
    return [
        place
        for place in found
        if (not choice.tasks or place.task in choice.tasks)
        and (not choice.gaps or place.gap in choice.gaps)
        and (_is_chosen(place, choice.methods, rows) or (extra and not choice.methods))
    ]


def _is_chosen(place: Place, methods: Sequence[str], rows: Set[str]) -> bool:
    if not methods:
        return not place.extra
    # A method's name means all its rows but the extra ones; where a row has that name, the row alone.
    return place.row in methods or (place.cell.method in set(methods) - rows and not place.extra)


def cells(chosen: Sequence[Place]) -> list[Cell]:
    """The different cells, in order; one that another one waits for comes before it."""
    found: dict[str, Cell] = {}
    for place in chosen:
        cell = place.cell
        if cell.match is not None:
            found.setdefault(cell.match.key, cell.match)
        found.setdefault(cell.key, cell)
    return list(found.values())
