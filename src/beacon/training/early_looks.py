"""Early news of success: what may be said about it, and what a run asks of whoever evaluates its checkpoints.

The trainer knows no simulator. `beacon.cli.early_looks` has one, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol

from beacon.errors import UserError
from beacon.policy.config import ObservationSpec
from beacon.ranges import Range, check_ranges

VALIDATION_SEED = 2000  # initial states to choose by; those that results are about stay unseen


@dataclass(frozen=True)
class LookOptions:
    """Whether success is looked at while a run goes on, and where."""

    # Epochs between two early looks at success: a checkpoint is written, and another process evaluates it.
    evaluate_every: Annotated[int | None, Range(1, 10**12)] = None
    # Task of an early look, such as stack; as for beacon evaluate.
    evaluate_task: str | None = None
    # Domain of an early look.
    evaluate_domain: str = "source"
    # Where objects start in an early look: train, target or ood.
    evaluate_region: str = "train"
    # small or full, as the demonstrations are.
    evaluate_size: str = "small"
    # Episodes of an early look.
    evaluate_episodes: Annotated[int, Range(1, 1_000_000)] = 10
    # Seed of the initial states of early looks; those of beacon evaluate are others.
    evaluate_seed: Annotated[int, Range(0, 2**62)] = VALIDATION_SEED
    # Where the policy computes in an early look: the training keeps its GPU for itself.
    evaluate_device: str = "cpu"

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.evaluate_every is not None and self.evaluate_task is None:
            raise UserError("--evaluate-every needs --evaluate-task, for example stack")

    def is_due(self, epochs: int) -> bool:
        """Whether success is looked at after so many epochs."""
        return self.evaluate_every is not None and epochs % self.evaluate_every == 0


class Look(NamedTuple):
    """What an early look saw."""

    step: int  # of the checkpoint
    values: Mapping[str, float | str]  # task, size, domain, region, episodes, success, low, high, …


class EarlyLooks(Protocol):
    """Whoever evaluates checkpoints beside a run. No call but `check` and `finish` waits for anything."""

    def check(self, spec: ObservationSpec) -> None:
        """Refuse, by a UserError, a policy that the task cannot be played with.

        Args:
            spec: what the policy sees and does.
        """
        ...

    def saved(self, step: int, checkpoint: Path) -> None:
        """A checkpoint was written that should be looked at."""
        ...

    def news(self) -> list[Look]:
        """What was seen since the last call."""
        ...

    def finish(self) -> list[Look]:
        """Wait for what is under way, and say what was seen."""
        ...
