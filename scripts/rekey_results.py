"""Give results of before the nested options their new keys: rekey_results.py OLD_KEYS RESULTS.

The old code listed the key of every row (JSON: identity -> [key, training key]). A result belongs to the row of
today that has the same name, data, policy, optimisation and evaluations. Results whose meaning has changed are
removed: the localized discrepancy (all windows, noise of their own), two sources under the minimiser (domains are
compared by the mass that they keep), and source-only (no camera map without a target).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from beacon.suites.experiment import Experiment, digest
from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders, write_result
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore

CHANGED = ("options", "match", "revision", "auxiliary")


def common(configuration: dict[str, Any]) -> str:
    """What the new form of the options has not changed."""
    return digest({name: value for name, value in configuration.items() if name not in CHANGED})


def main(old_keys: Path, results: Path) -> None:
    """Rewrite every result in place."""
    rows: dict[str, set[str]] = {}
    for identity, (key, _) in json.loads(old_keys.read_text()).items():
        rows.setdefault(key, set()).add(identity.split("|")[2].removeprefix("match:"))
    store = ResultStore(Folders(Path("unused"), results))
    today: dict[tuple[str, str], Experiment] = {}
    for preset in ("cpu", "cpu-4x", "cpu-16x"):
        for suite in SUITES.values():
            if suite.grow is not None:
                continue
            for entry in select_entries(suite, PRESETS[preset], Choice(tuple(range(8))), store, extra=True):
                today[entry.row, common(entry.experiment.configuration())] = entry.experiment
    moved = removed = 0
    for file in sorted((results / "cells").glob("*.json")):
        result = json.loads(file.read_text())
        configuration = result["configuration"]
        if file.stem not in rows:
            continue  # it has its new key already
        options = configuration["options"]
        localized = options.get("weighting", {}).get("discrepancy") == "localized"
        two_sources = configuration["method"] == "beacon" and len(configuration["sources"]) > 1
        names = rows[file.stem]
        matches = [
            today[row, common(configuration)] for row in names if (row, common(configuration)) in today
        ]
        if localized or two_sources or not matches:
            file.unlink()
            removed += 1
            print("removed", file.stem, sorted(names))
            continue
        experiment = matches[0]
        result |= {"key": experiment.key, "configuration": experiment.configuration()}
        config = experiment.train_config(
            Path(), ratio=0.5 if experiment.match is not None else None
        ).decisive()
        stored = result["train_config"]
        stored["options"] = config["options"] | {
            name: value for name, value in stored["options"].items() if name == "ratio"
        }
        stored["auxiliary"] = config["auxiliary"]
        file.unlink()
        write_result(results / "cells" / f"{experiment.key}.json", result)
        moved += 1
    print(f"{moved} results have new keys, {removed} are gone")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
