"""A suite: tasks × gaps × method variants × seeds, and which part of it a user asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from beacon.errors import UserError, meant
from beacon.registry import Registry
from beacon.suites.experiment import Experiment
from beacon.suites.presets import SuitePreset
from beacon.suites.setting import Setting, TableEntry
from beacon.suites.variants import VARIANTS, MethodVariant

# The result of an experiment, None where it is not done.
Lookup = Callable[[Experiment], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Scope:
    """One task and gap of a suite at one preset, over all seeds asked for."""

    preset: SuitePreset
    task: str
    gap: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Suite:
    """A table of the paper, or of ours.

    Args:
        name: what the command line calls it.
        about: one line for people.
        tasks: names of tasks.
        gaps: names of target domains.
        settings: the settings of one task, gap and seed, in the order of work.
        rows: method variants, or names of registered ones.
        grow: in place of settings and rows where what comes next depends on results: all entries of a task
            and gap so far, of all seeds.
    """

    name: str
    about: str
    tasks: tuple[str, ...]
    gaps: tuple[str, ...]
    settings: Callable[[SuitePreset, str, str, int], Iterable[Setting]] | None = None
    rows: tuple[str | MethodVariant, ...] = ()
    grow: Callable[[Scope, Lookup], list[TableEntry]] | None = None

    def variants(self) -> list[MethodVariant]:
        """Its rows, and those that variants of other packages add."""
        own = [VARIANTS[row] if isinstance(row, str) else row for row in self.rows]
        names = {variant.name for variant in own}
        return own + [v for v in VARIANTS.values() if self.name in v.suites and v.name not in names]


SUITES: Registry[Suite] = Registry("suite", "beacon.suites", home="beacon.suites.definitions")


def register_suite(suite: Suite) -> Suite:
    """Make a suite known by its name."""
    return SUITES.register(suite.name)(suite)


@dataclass(frozen=True)
class Choice:
    """Which part of a suite.

    Args:
        seeds: of the runs.
        methods: names of rows, of methods, or of registered variants; none: all rows but the extra ones.
        tasks: names of tasks, of the suite's or any other that is registered; none: the suite's.
        gaps: names of domains, likewise.
        columns: what else tells columns apart, such as "ood" or "n=10"; none: all of them.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def select_entries(
    suite: Suite, preset: SuitePreset, choice: Choice, lookup: Lookup | None = None, *, extra: bool = False
) -> list[TableEntry]:
    """The chosen entries; all methods of one seed come before the next seed.

    Args:
        suite: of which.
        preset: how much of everything.
        choice: which part.
        lookup: tells results, for a suite that depends on them.
        extra: also rows that are only run when asked for.
    """
    from beacon.sim.domains import DOMAINS
    from beacon.sim.tasks import TASKS

    tasks = _chosen(choice.tasks, suite, suite.tasks, TASKS, "--tasks")
    gaps = _chosen(choice.gaps, suite, suite.gaps, DOMAINS, "--gaps")
    if suite.grow is not None:
        tell = lookup or (lambda _: None)
        scopes = [Scope(preset, task, gap, choice.seeds) for task in tasks for gap in gaps]
        entries = [entry for scope in scopes for entry in suite.grow(scope, tell)]
        return _of_columns(suite, _of_methods(suite, entries, choice.methods, extra), choice.columns)
    assert suite.settings is not None
    variants = suite.variants()
    variants += _asked_for(suite, variants, choice.methods)
    entries = [
        entry
        for seed in choice.seeds
        for task in tasks
        for gap in gaps
        for setting in suite.settings(preset, task, gap, seed)
        for variant in variants
        for entry in setting.entries(variant)
    ]
    return _of_columns(suite, _of_methods(suite, entries, choice.methods, extra), choice.columns)


@dataclass(frozen=True)
class MethodNames:
    """What ``--methods`` takes: usual rows, rows only when asked for, other methods and variants."""

    usual: tuple[str, ...]
    extra: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def method_names(suite: Suite) -> MethodNames:
    """The names that a user may choose rows by; a suite that depends on results shows its own."""
    from beacon.methods import METHODS

    if suite.grow is not None:
        return MethodNames(())
    variants = suite.variants()
    rows = [variant.name for variant in variants]
    return MethodNames(
        tuple(variant.name for variant in variants if not variant.extra),
        tuple(variant.name for variant in variants if variant.extra),
        tuple(name for name in dict.fromkeys([*METHODS, *VARIANTS]) if name not in rows),
    )


def _chosen(
    names: Sequence[str], suite: Suite, own: Sequence[str], registry: Registry[Any], option: str
) -> list[str]:
    """Tasks or gaps: of the suite's those that are named, then others that are registered."""
    for name in names:
        if name not in own and name not in registry:
            others = ", ".join(sorted(set(registry) - set(own)))
            near = meant(name, registry)
            raise UserError(
                f"{option} {name}: there is no such {registry.what}; {near}{suite.name} has "
                f"{', '.join(own)}; {others} can be named as well"
            )
    if not names:
        return list(own)
    return [name for name in own if name in names] + [name for name in names if name not in own]


def _asked_for(suite: Suite, variants: Sequence[MethodVariant], names: Sequence[str]) -> list[MethodVariant]:
    """Rows that the suite does not have: registered variants, and methods with their default options."""
    from beacon.methods import METHODS

    known = {variant.name for variant in variants} | {variant.method for variant in variants}
    others = []
    for name in names:
        if name in known:
            continue
        if name in VARIANTS:
            others.append(VARIANTS[name])
        elif name in METHODS:
            others.append(MethodVariant(name, name, name))
        else:
            raise _no_method(suite, name, known | set(METHODS))
    return others


def _of_methods(
    suite: Suite, entries: Sequence[TableEntry], methods: Sequence[str], extra: bool
) -> list[TableEntry]:
    rows = {entry.row for entry in entries}
    known = rows | {entry.experiment.method for entry in entries}
    for name in methods:
        if name not in known:
            raise _no_method(suite, name, known)
    return [entry for entry in entries if _is_chosen(entry, methods, rows) or (extra and not methods)]


def _of_columns(suite: Suite, entries: list[TableEntry], columns: Sequence[str]) -> list[TableEntry]:
    known = list(dict.fromkeys(entry.detail for entry in entries if entry.detail))
    for name in columns:
        if name not in known:
            others = ", ".join(map(repr, known)) or "one column a gap"
            raise UserError(f"--columns {name!r}: {suite.name} has {others}")
    return [entry for entry in entries if not columns or entry.detail in columns]


def _no_method(suite: Suite, name: str, known: Iterable[str]) -> UserError:
    return UserError(f"--methods {name}: {suite.name} takes {', '.join(sorted(known))}")


def _is_chosen(entry: TableEntry, methods: Sequence[str], rows: Set[str]) -> bool:
    if not methods:
        return not entry.extra
    # A method's name means all its rows but the extra ones; where a row has that name, the row alone.
    return entry.row in methods or (entry.experiment.method in set(methods) - rows and not entry.extra)


def experiments_of(entries: Sequence[TableEntry]) -> list[Experiment]:
    """The different experiments, in order; one that another one waits for comes before it."""
    by_key: dict[str, Experiment] = {}
    for entry in entries:
        experiment = entry.experiment
        if experiment.match is not None:
            by_key.setdefault(experiment.match.key, experiment.match)
        by_key.setdefault(experiment.key, experiment)
    return list(by_key.values())
