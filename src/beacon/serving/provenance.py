"""Where a policy comes from, as far as its run folder says: data, method, success rates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

LARGEST_FILE = 2**26  # bytes of a result or a list of demonstrations


def read_provenance(run: Path, checkpoint: Path) -> dict[str, Any]:
    """What is known of a policy; parts that the folder does not have are left out.

    Args:
        run: a run folder, or a checkpoint or exported policy, which brings its own provenance.json.
        checkpoint: the folder of the policy itself.
    """
    exported = _mapping(_read_json(checkpoint / "provenance.json"))
    if exported:
        return {key: exported[key] for key in ("training", "data", "success") if key in exported}
    folder = run if (run / "data.json").is_file() else checkpoint.parent.parent
    provenance: dict[str, Any] = {}
    if training := _training(folder, checkpoint):
        provenance["training"] = training
    if data := _data(folder):
        provenance["data"] = data
    if success := _success(folder):
        provenance["success"] = success
    return provenance


def _training(folder: Path, checkpoint: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError):
        config = None
    config = _mapping(config)
    optimization = _mapping(config.get("optimization"))
    known = {
        "method": config.get("method"),
        "preset": config.get("preset"),
        "seed": optimization.get("seed"),
        "steps": _mapping(_read_json(checkpoint / "trainer.json")).get("step"),
    }
    return {key: value for key, value in known.items() if value is not None}


def _data(folder: Path) -> list[dict[str, Any]]:
    """Name, role, size and hashes of every domain; no paths, which are nobody else's business."""
    records = _read_json(folder / "data.json")
    entries = []
    for record in records if isinstance(records, list) else []:
        record = _mapping(record)
        demos = record.get("demos")
        entries.append(
            {
                "name": str(record.get("name", "")),
                "role": "target" if record.get("is_target") else "source",
                "demonstrations": len(demos) if isinstance(demos, list) else None,
                "actions_sha256": str(record.get("actions", "")),
                "first_frames_sha256": str(record.get("frames", "")),
            }
        )
    return entries


def _success(folder: Path) -> list[dict[str, Any]]:
    """Success rates of ``beacon evaluate``, one entry a result file and criterion."""
    rows = []
    for file in sorted((folder / "eval").glob("*.json")):
        result = _mapping(_read_json(file))
        for criterion, rate in sorted(_mapping(result.get("rates")).items()):
            rate = _mapping(rate)
            if not isinstance(rate.get("rate"), int | float):
                continue
            where = {key: str(result.get(key, "")) for key in ("task", "size", "domain", "region")}
            states = _mapping(result.get("initial_states")).get("sha256")
            numbers = {key: rate.get(key) for key in ("rate", "episodes", "wilson_95")}
            rows.append({**where, "criterion": str(criterion), **numbers, "states_sha256": states})
    return rows


def _read_json(file: Path) -> Any:
    try:
        if file.stat().st_size > LARGEST_FILE:
            return None
        return json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
