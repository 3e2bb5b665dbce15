"""Commands that repeat what a run did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from beacon.methods import DEFAULT_METHOD, METHODS
from beacon.report.records import Evaluation, RunRecord
from beacon.training.config import DataOptions, RunOptions, TrainConfig, preset_config

REPEATED = ("source", "rename")  # options that are said once for each value


def train_command(config: TrainConfig, out: Path) -> str:
    """The ``beacon train`` that has this configuration, with what differs from the defaults."""
    policy, optimization = preset_config(config.preset)
    words = ["beacon", "train"]
    if config.method != DEFAULT_METHOD:
        words += ["--method", config.method]
    if config.preset != "cpu":
        words += ["--preset", config.preset]
    words += _arguments(config.data, DataOptions())
    words += _arguments(config.options, METHODS[config.method].default_options())
    words += _arguments(config.optimization, optimization)
    words += _arguments(config.policy, policy, prefix="policy.")
    words += _arguments(config.run, RunOptions())
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


def _arguments(value: Any, default: Any, prefix: str = "") -> list[str]:
    """Options for the fields that differ from the default."""
    words: list[str] = []
    hints = get_type_hints(type(value), include_extras=True)
    for entry in fields(value):
        mine, theirs = getattr(value, entry.name), getattr(default, entry.name)
        option = f"--{prefix}{entry.name.replace('_', '-')}"
        if is_dataclass(mine):
            # A nested part has its name before its options, unless it was annotated to have none.
            bare = any(getattr(note, "name", None) == "" for note in _notes(hints[entry.name]))
            words += _arguments(mine, theirs, prefix if bare else f"{option.removeprefix('--')}.")
        elif mine == theirs:
            continue
        elif isinstance(mine, bool):
            words.append(option if mine else f"--{prefix}no-{entry.name.replace('_', '-')}")
        elif isinstance(mine, tuple) and entry.name in REPEATED:
            words += [word for item in mine for word in (option, str(item))]
        elif isinstance(mine, tuple):
            words += [option, *map(str, mine)]
        else:
            words += [option, str(mine)]
    return words


def _notes(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())
