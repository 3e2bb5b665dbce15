"""Two policies rolled out in turns from the same initial states, until a sequential test decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.analysis import SequentialTest, sequential_test
from beacon.errors import UserError
from beacon.sim.batch import EpisodeResult
from beacon.sim.domains import Domain, resolve_domain
from beacon.sim.evaluate import (
    BATCH,
    EvaluateConfig,
    describe_results,
    evaluation_states,
    read_result,
    run_batches,
)
from beacon.sim.policies import Policy
from beacon.sim.simulation import make_world

STOPPED_EARLY = "stopped_early"  # in a result file: the evaluation is a partial one


@dataclass(frozen=True)
class DecisionOptions:
    """How two policies are compared."""

    # Probability of ever calling a policy better that is not.
    alpha: float = 0.05
    # Outcome that is compared, from 0 to 1.
    criterion: str = "success"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise UserError(f"--alpha {self.alpha}: must be above 0 and below 1")


@dataclass(frozen=True)
class Decision:
    """What came of it."""

    test: SequentialTest
    states: int  # from which the policies were rolled out
    planned: int
    results: tuple[dict[str, Any], dict[str, Any]]  # of both policies; partial ones say so

    @property
    def is_partial(self) -> bool:
        """Whether it stopped before all planned states were used."""
        return self.states < self.planned


def evaluate_until_decided(
    first: str | Path | Policy,
    second: str | Path | Policy,
    config: EvaluateConfig,
    options: DecisionOptions | None = None,
    *,
    progress: Callable[[int, int, int], None] | None = None,
) -> Decision:
    """Roll two policies out from the same states, and stop as soon as one is shown to be better.

    A look costs nothing: the test is valid whenever it stops (`beacon.analysis.sequential`). States are
    independent draws, so their order is random as the test needs it.

    Args:
        first: the policy, or what `beacon.sim.policies.load` takes.
        second: the other, or a result file (.json) of it from the same states.
        config: the setting; ``episodes`` is the largest number of states.
        options: of the test.
        progress: is told how many states are done, of how many, and 0.
    """
    asked, domain = options or DecisionOptions(), resolve_domain(config.domain)
    began = time.monotonic()
    sides = [_Side(policy, config, domain) for policy in (first, second)]
    differences: list[float] = []
    test = sequential_test(differences, asked.alpha)
    try:
        while len(differences) < config.episodes and test.better is None:
            batches = [side.next_scores(asked.criterion) for side in sides]
            differences += [a - b for a, b in zip(*batches, strict=True)]
            test = sequential_test(differences, asked.alpha)
            if progress:
                progress(len(differences), config.episodes, 0)
    finally:
        for side in sides:
            side.close()
    seconds = time.monotonic() - began
    results = tuple(side.describe(seconds) for side in sides)
    decision = Decision(test, len(differences), config.episodes, (results[0], results[1]))
    for own, other in ((0, 1), (1, 0)):
        if decision.is_partial and not sides[own].is_stored:
            results[own][STOPPED_EARLY] = _note(decision, asked, own, results[other]["policy"])
    return decision


class _Side:
    """One of the two policies: rolled out batch by batch, or read from a result."""

    def __init__(self, policy: str | Path | Policy, config: EvaluateConfig, domain: Domain) -> None:
        self._policy, self._config, self._domain = policy, config, domain
        self._results: list[EpisodeResult] = []
        self._stored = _stored_result(policy, config, domain)
        self._batches: Iterator[list[EpisodeResult]] = iter(())
        self._done = 0
        if self._stored is None:
            self._batches = run_batches(policy, config, domain)

    @property
    def is_stored(self) -> bool:
        """Whether nothing is rolled out."""
        return self._stored is not None

    def next_scores(self, criterion: str) -> list[float]:
        """Outcomes of the next batch of states."""
        if self._stored is not None:
            return [_score(episode, criterion) for episode in self._take_stored()]
        batch = next(self._batches)
        self._results += batch
        return [_score(result.outcomes, criterion) for result in batch]

    def _take_stored(self) -> list[dict[str, Any]]:
        assert self._stored is not None
        episodes: list[dict[str, Any]] = self._stored["episodes"][self._done : self._done + BATCH]
        self._done += len(episodes)
        return episodes

    def describe(self, seconds: float) -> dict[str, Any]:
        """The result so far; a stored one as it is."""
        if self._stored is not None:
            return dict(self._stored)
        name = str(self._policy) if isinstance(self._policy, str | Path) else type(self._policy).__name__
        return describe_results(name, self._config, self._domain, self._results, seconds)

    def close(self) -> None:
        """End the worker processes."""
        if hasattr(self._batches, "close"):
            self._batches.close()


def _stored_result(
    policy: str | Path | Policy, config: EvaluateConfig, domain: Domain
) -> dict[str, Any] | None:
    """A result file of the same setting and states; None if the policy is not such a file."""
    if not isinstance(policy, str | Path) or not str(policy).endswith(".json"):
        return None
    result = read_result(Path(policy))
    setting = {"task": config.task, "size": config.size, "domain": domain.name, "region": config.region}
    for key, value in setting.items():
        if result.get(key) != value:
            raise UserError(f"{policy} is of {key} {result.get(key)}, not of {value}; it cannot be paired")
    world = make_world(config.task, domain, config.size)
    states = evaluation_states(world, config.region, config.seed, config.episodes)
    world.close()
    stored = result["initial_states"].get("qpos", [])
    if stored[: len(states)] != [[round(value, 12) for value in state.qpos] for state in states]:
        raise UserError(
            f"{policy} does not start from the {config.episodes} initial states of --seed {config.seed}; "
            "it cannot be paired"
        )
    return result


def _score(outcomes: dict[str, Any], criterion: str) -> float:
    if criterion not in outcomes:
        known = ", ".join(name for name, value in outcomes.items() if isinstance(value, float))
        raise UserError(f"--criterion {criterion}: there is no such outcome; take one of {known}")
    return float(outcomes[criterion])


def _note(decision: Decision, options: DecisionOptions, own: int, other: str) -> dict[str, Any]:
    test = decision.test
    return {
        "why": "a sequential paired test was decided; the rates are not those of a fixed number of states",
        "compared_with": other,
        "criterion": options.criterion,
        "alpha": options.alpha,
        "states": decision.states,
        "planned_states": decision.planned,
        "decided_after": test.decided_after,
        "is_better": test.better == ("first", "second")[own],
        "evidence": (test.evidence_first, test.evidence_second)[own],
        "threshold": test.threshold,
    }
