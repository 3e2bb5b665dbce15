"""Results of evaluations beside each other: ours, or LeRobot's eval_info.json; paired where that is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from beacon.analysis import compact_letters, compare_methods, holm, mcnemar_exact, newcombe, wilson
from beacon.errors import UserError
from beacon.runs.evaluations import read_evaluation
from beacon.runs.layout import EVALUATIONS
from beacon.runs.reading import damaged, read_json


@dataclass(frozen=True)
class Outcomes:
    """What one result says: a success or none for every episode."""

    path: str
    setting: str  # what was evaluated, in words; results of different settings are not compared
    states: str | None  # identifies the initial states; None where the file does not say
    successes: tuple[bool, ...]

    @property
    def rate(self) -> float:
        """Share of episodes that succeeded."""
        return sum(self.successes) / len(self.successes)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of it."""
        return wilson(sum(self.successes), len(self.successes))


@dataclass(frozen=True)
class PairComparison:
    """Second minus first result."""

    first: int
    second: int
    is_paired: bool
    difference: float
    low: float
    high: float
    p_value: float  # McNemar's exact test where paired, otherwise Fisher's; two-sided
    adjusted_p: float  # Holm's, over all pairs


@dataclass(frozen=True)
class Comparison:
    """Several results and all pairs of them."""

    results: tuple[Outcomes, ...]
    pairs: tuple[PairComparison, ...]
    letters: tuple[str, ...]  # results that share one do not differ
    alpha: float

    @property
    def is_some_worse(self) -> bool:
        """Whether a later result is worse than the first, beyond chance."""
        return any(p.first == 0 and p.difference < 0 and p.adjusted_p < self.alpha for p in self.pairs)


def compare_results(results: Sequence[Outcomes], alpha: float = 0.05) -> Comparison:
    """Every pair of results, with Holm's adjustment over all pairs.

    Args:
        results: at least two, of one setting.
        alpha: probability of any false difference.
    """
    if len(results) < 2:
        raise UserError("name at least two results to compare; see beacon compare --help")
    for other in results[1:]:
        if other.setting != results[0].setting:
            raise UserError(
                f"{results[0].path} is of {results[0].setting}, {other.path} of {other.setting}; "
                "only results of one setting are compared"
            )
    numbers = list(combinations(range(len(results)), 2))
    tests = [_pair(results[first], results[second]) for first, second in numbers]
    adjusted = holm([test[-1] for test in tests])
    pairs = tuple(
        PairComparison(first, second, *test, adjusted_p)
        for (first, second), test, adjusted_p in zip(numbers, tests, adjusted, strict=True)
    )
    order = sorted(range(len(results)), key=lambda number: -results[number].rate)
    rank = {number: position for position, number in enumerate(order)}
    different = [(rank[p.first], rank[p.second]) for p in pairs if p.adjusted_p < alpha]
    letters = compact_letters(len(results), different)
    return Comparison(
        tuple(results), pairs, tuple(letters[rank[number]] for number in range(len(results))), alpha
    )


def read_outcomes(path: Path) -> Outcomes:
    """A result of ``beacon evaluate``, a run folder with one, or LeRobot's eval_info.json.

    Args:
        path: the file or folder.
    """
    file = _file(path)
    try:
        content = read_json(file)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    if isinstance(content, dict) and ("per_episode" in content or "per_task" in content):
        return _lerobot(file, content)
    evaluation = read_evaluation(file)
    if "stopped_early" in evaluation.result:
        raise UserError(
            f"{file} is partial: --until-decided stopped it early and its verdict is in the file; compare "
            "complete evaluations"
        )
    return Outcomes(
        path=str(path),
        setting=" ".join(evaluation.setting),
        states=evaluation.result.get("initial_states", {}).get("sha256"),
        successes=tuple(value >= 1 for value in evaluation.outcomes("success")),
    )


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / "eval_info.json").exists():
        return path / "eval_info.json"
    files = sorted((path / EVALUATIONS).glob("*.json"))
    if len(files) != 1:
        raise UserError(f"{path} has {len(files)} results of evaluations; name the file in {EVALUATIONS}/")
    return files[0]


def _lerobot(file: Path, content: dict[str, Any]) -> Outcomes:
    """LeRobot's file, of versions with a list of episodes or with lists by task."""
    try:
        if "per_episode" in content:
            episodes = content["per_episode"]
            successes = tuple(_succeeded(file, episode["success"]) for episode in episodes)
            seeds = [episode.get("seed") for episode in episodes]
            states = None if None in seeds else f"seeds {seeds}"
            setting = "LeRobot's evaluation"
        else:
            tasks = content["per_task"]
            successes = tuple(_succeeded(file, s) for task in tasks for s in task["metrics"]["successes"])
            states = None
            names = [f"{task.get('task_group', '?')} {task.get('task_id', '?')}" for task in tasks]
            setting = f"LeRobot's evaluation of {', '.join(names)}"
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(file, error) from None
    if not successes:
        raise damaged(file, "it has no episodes")
    return Outcomes(str(file), setting, states, successes)


def _succeeded(file: Path, value: Any) -> bool:
    """A success as LeRobot writes it; anything else would count as one."""
    if not isinstance(value, int | float) or value not in (0, 1):
        raise damaged(file, f"a success is true or false, not {value!r}")
    return bool(value)


def _pair(first: Outcomes, second: Outcomes) -> tuple[bool, float, float, float, float]:
    """Whether paired, difference, interval, p-value."""
    a, b = np.array(first.successes, float), np.array(second.successes, float)
    if first.states is not None and first.states == second.states and len(a) == len(b):
        interval = compare_methods([b], [a])
        p_value = float(mcnemar_exact(second.successes, first.successes)["p_value"])
        return True, interval.difference, interval.low, interval.high, p_value
    from scipy.stats import fisher_exact

    table = [[b.sum(), len(b) - b.sum()], [a.sum(), len(a) - a.sum()]]
    low, high = newcombe(b.sum(), len(b), a.sum(), len(a))
    return False, float(b.mean() - a.mean()), low, high, float(fisher_exact(table)[1])
