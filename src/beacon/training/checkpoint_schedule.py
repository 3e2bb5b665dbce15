"""After which epochs a run writes a checkpoint, and after which it stops."""

from __future__ import annotations

import time
from collections.abc import Callable

from beacon.training.config import RunOptions

CHECKPOINTS = 10  # in a run, unless said otherwise


class CheckpointSchedule:
    """Asked at the end of every epoch, which is when a run can be saved and stopped.

    Args:
        options: ``checkpoint_every``, ``checkpoint_minutes``, ``max_hours`` and ``looks`` count.
        epochs: of the whole run.
        now: seconds, from any origin.
        began: when the session did, by the same clock; None: now.
    """

    def __init__(
        self,
        options: RunOptions,
        epochs: int,
        now: Callable[[], float] = time.monotonic,
        began: float | None = None,
    ) -> None:
        self._options, self._epochs, self._now = options, epochs, now
        self._every = options.checkpoint_every or max(1, epochs // CHECKPOINTS)
        self._epoch_began = self._saved = now()
        self._started = self._saved if began is None else began
        self._longest = 0.0  # seconds of an epoch

    def after(self, epoch: int) -> tuple[bool, bool]:
        """Whether to write a checkpoint after this epoch, which has just ended, and whether to stop then."""
        present = self._now()
        self._longest = max(self._longest, present - self._epoch_began)
        self._epoch_began = present
        options, number = self._options, epoch + 1
        # Stop when another epoch, as long as the longest so far, would end too late.
        ends = present - self._started + self._longest
        stops = options.max_hours is not None and ends > 3600 * options.max_hours
        minutes = options.checkpoint_minutes
        is_old = minutes is not None and present - self._saved >= 60 * minutes
        is_asked_for = number % self._every == 0 or options.looks.is_due(number)
        saves = stops or is_old or is_asked_for or number == self._epochs
        if saves:
            self._saved = present
        return saves, stops
