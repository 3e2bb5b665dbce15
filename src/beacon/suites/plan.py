"""Tables that are declared before they are run: which rows, from which states, with which seeds, in which
order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beacon.errors import UserError
from beacon.plain import from_plain
from beacon.suites.presets import SuitePreset, find_preset
from beacon.suites.results import Folders
from beacon.suites.setting import TableEntry
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore
from beacon.yaml_files import read_yaml


@dataclass(frozen=True)
class DeclaredTable:
    """A part of a suite, as ``beacon suite run`` takes it.

    Args:
        suite: its name.
        seeds: of the runs.
        preset: sizes.
        states: initial states that policies are judged from.
        methods: rows; none: all but the extra ones.
        tasks: none: the suite's.
        gaps: target domains; none: the suite's.
        columns: where a task and gap has several; none: all.
        about: what the table is to show.
    """

    suite: str = ""
    seeds: tuple[int, ...] = ()
    preset: str = "cpu"
    states: str = "test"
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    about: str = ""

    def __post_init__(self) -> None:
        if not self.suite:
            raise UserError("suite: name one; see beacon suite list")
        if not self.seeds or min(self.seeds) < 0:
            raise UserError("seeds: name at least one, none below 0")

    def sizes(self) -> SuitePreset:
        """How much of everything, judged from which initial states."""
        return find_preset(self.preset, self.states)

    def entries(self, folders: Folders) -> list[TableEntry]:
        """Its entries that are known now.

        Args:
            folders: of results, on which the entries of some suites depend.
        """
        choice = Choice(tuple(dict.fromkeys(self.seeds)), self.methods, self.tasks, self.gaps, self.columns)
        return select_entries(SUITES.find(self.suite), self.sizes(), choice, ResultStore(folders))


def read_plan(path: Path) -> tuple[DeclaredTable, ...]:
    """The tables that a file declares, in the order of work; all that they name is known.

    Args:
        path: a YAML file, a list of mappings with the fields of `DeclaredTable`.
    """
    content = read_yaml(path)
    if not isinstance(content, list) or not content:
        raise UserError(f"{path}: a list of tables expected, each with suite and seeds")
    tables = []
    for number, item in enumerate(content, start=1):
        try:
            table: DeclaredTable = from_plain(DeclaredTable, item)
            table.entries(Folders(path.parent, path.parent))
        except UserError as error:
            raise UserError(f"{path}: table {number}: {error}") from None
        tables.append(table)
    return tuple(tables)
