"""Commands that repeat what a run did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from beacon.methods import DEFAULT_METHOD, METHODS
from beacon.option_words import option_words, parts_words
from beacon.report.run_record import RunRecord
from beacon.runs import Evaluation
from beacon.runs.layout import DECISIONS
from beacon.training.config import RunOptions, TrainConfig, preset_config, preset_data


def train_command(config: TrainConfig, out: Path) -> str:
    """The ``beacon train`` that has this configuration, with what differs from the defaults."""
    policy, optimization = preset_config(config.preset)
    words = ["beacon", "train"]
    if config.method != DEFAULT_METHOD:
        words += ["--method", config.method]
    if config.preset != "cpu":
        words += ["--preset", config.preset]
    words += option_words(replace(config.data, decisions=()), preset_data(config.preset))
    if config.data.decisions:
        words += ["--decisions", str(out / DECISIONS)]
    words += option_words(config.options, METHODS[config.method].default_options())
    words += parts_words(config.auxiliary, METHODS[config.method].default_auxiliary(), "auxiliary")
    words += option_words(config.optimization, optimization)
    words += option_words(config.policy, policy, prefix="policy.")
    words += option_words(config.run, RunOptions())
    return shlex.join([*words, "--out", str(out)])


def evaluate_command(run: Path, evaluation: Evaluation | None, task: Mapping[str, str] | None = None) -> str:
    """The ``beacon evaluate`` of a result, or one to be run on a task."""
    words = ["beacon", "evaluate", str(run)]
    if evaluation is None:
        known = task or {}
        words += ["--task", known.get("task", "TASK"), "--domain", known.get("domain", "DOMAIN")]
        if known.get("size", "small") != "small":
            words += ["--size", known["size"]]
        return shlex.join(words)
    result = evaluation.result
    for option, key in (("task", "task"), ("domain", "domain"), ("region", "region"), ("size", "size")):
        if key in result:
            words += [f"--{option}", str(result[key])]
    words += ["--episodes", str(len(result["episodes"]))]
    if "seed" in result.get("initial_states", {}):
        words += ["--seed", str(result["initial_states"]["seed"])]
    if result.get("policy_seed"):
        words += ["--policy-seed", str(result["policy_seed"])]
    return shlex.join(words)


def report_command(records: list[RunRecord], out: Path | None) -> str:
    """The ``beacon report`` that makes this page."""
    words = ["beacon", "report", *(str(record.path) for record in records)]
    return shlex.join(words if out is None else [*words, "--out", str(out)])


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """A nested configuration as dotted names and plain values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
