"""Results that were computed before are found: whatever is renamed, their keys stay."""

from __future__ import annotations

import json
from pathlib import Path

from beacon.suites.experiment import digest
from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore

RESULTS = Path(__file__).parents[2] / "results"
SEEDS = range(10)  # as docs/results.md looks for


def test_every_stored_result_is_that_of_some_row(tmp_path: Path) -> None:
    left = {path.stem: path for path in (RESULTS / "cells").glob("*.json")}
    assert len(left) > 80
    store = ResultStore(Folders(tmp_path, RESULTS))
    for preset in PRESETS:
        for suite in SUITES.values():
            for seed in SEEDS:
                if not left:
                    return
                for entry in select_entries(suite, PRESETS[preset], Choice((seed,)), store, extra=True):
                    path = left.pop(entry.experiment.key, None)
                    if path is not None:
                        configuration = json.loads(path.read_text())["configuration"]
                        assert configuration == entry.experiment.configuration()
    assert not left


def test_the_names_of_stored_results_are_hashes_of_what_they_say() -> None:
    for path in (RESULTS / "cells").glob("*.json"):
        assert digest(json.loads(path.read_text())["configuration"]) == path.stem
