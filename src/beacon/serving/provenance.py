"""Where a policy comes from, as far as its run folder says: data, method, success rates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.runs import Evaluation, Run
from beacon.runs.evaluations import read_evaluation
from beacon.runs.layout import DATA
from beacon.runs.provenance import describe_data
from beacon.runs.reading import read_json

PROVENANCE = "provenance.json"  # of an exported policy
PARTS = ("training", "data", "success")


def read_provenance(folder: Path, checkpoint: Path) -> dict[str, Any]:
    """What is known of a policy; parts that its folder does not have, or that are damaged, are left out.

    Args:
        folder: a run folder, or a checkpoint or exported policy, which brings its own provenance.json.
        checkpoint: the folder of the policy itself.
    """
    with suppress(FileNotFoundError, UserError):
        exported = read_json(checkpoint / PROVENANCE)
        if isinstance(exported, Mapping) and exported:
            return {key: exported[key] for key in PARTS if key in exported}
    run = Run(folder if (folder / DATA).is_file() else checkpoint.parent.parent)
    parts = {
        "training": _training(run, checkpoint),
        "data": describe_data(run.path),
        "success": _success(run),
    }
    return {name: value for name, value in parts.items() if value}


def _training(run: Run, checkpoint: Path) -> dict[str, Any]:
    try:
        known = {
            "method": run.config.get("method"),
            "preset": run.config.get("preset"),
            "seed": run.option("optimization", "seed"),
            "steps": int(checkpoint.name) if checkpoint.name.isdecimal() else None,
        }
    except UserError:
        return {}
    return {key: value for key, value in known.items() if value is not None}


def _success(run: Run) -> list[dict[str, Any]]:
    """Success rates of ``beacon evaluate``, one entry a result file and criterion."""
    rows: list[dict[str, Any]] = []
    for file in run.evaluation_files:
        with suppress(UserError):  # a damaged result is no reason to keep a policy back
            rows += _rates(read_evaluation(file))
    return rows


def _rates(evaluation: Evaluation) -> list[dict[str, Any]]:
    where = dict(zip(("task", "size", "domain", "region"), evaluation.setting, strict=True))
    states = evaluation.result.get("initial_states", {}).get("sha256")
    rows = []
    for criterion, rate in sorted(evaluation.result["rates"].items()):
        if isinstance(rate, Mapping) and isinstance(rate.get("rate"), int | float):
            numbers = {key: rate.get(key) for key in ("rate", "episodes", "wilson_95")}
            rows.append({**where, "criterion": str(criterion), **numbers, "states_sha256": states})
    return rows
