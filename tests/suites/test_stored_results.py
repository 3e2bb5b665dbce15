"""Results that were computed before are found: whatever is renamed, their keys stay."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from beacon.suites.experiment import digest
from beacon.suites.presets import STATES, find_preset
from beacon.suites.results import Folders
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore

RESULTS = Path(__file__).parents[2] / "results"
Group = tuple[int, str]  # training seed and name of the initial states


def groups_of(paths: Iterable[Path]) -> dict[Group, dict[str, Any]]:
    """Configurations by key, of every group of results."""
    names = {number: name for name, number in STATES.items()}
    groups: dict[Group, dict[str, Any]] = {}
    for path in paths:
        configuration = json.loads(path.read_text())["configuration"]
        states = names[configuration["evaluations"][-1]["seed"]]
        groups.setdefault((configuration["seed"], states), {})[path.stem] = configuration
    return groups


def test_every_stored_result_is_that_of_some_row(tmp_path: Path) -> None:
    groups = groups_of((RESULTS / "cells").glob("*.json"))
    assert sum(map(len, groups.values())) > 80
    store = ResultStore(Folders(tmp_path, RESULTS))
    for (seed, states), left in groups.items():
        for preset, suite in product(("quick", "cpu", "free-view", "long", "paper", "tiny"), SUITES.values()):
            if not left:
                break
            sizes = find_preset(preset, states)
            for entry in select_entries(suite, sizes, Choice((seed,)), store, extra=True):
                configuration = left.pop(entry.experiment.key, None)
                assert configuration in (None, entry.experiment.configuration())
        assert not left, (seed, states)


def test_the_names_of_stored_results_are_hashes_of_what_they_say() -> None:
    for path in (RESULTS / "cells").glob("*.json"):
        assert digest(json.loads(path.read_text())["configuration"]) == path.stem
