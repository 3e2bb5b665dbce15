"""What `beacon suite run` shows while it works."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from beacon.suites.estimate import Estimate, in_words
from beacon.suites.experiment import Experiment
from beacon.suites.presets import SuitePreset
from beacon.suites.results import Folders
from beacon.suites.run_experiment import TRAIN
from beacon.suites.runner import Notice
from beacon.suites.setting import TableEntry

EVERY = 60.0  # seconds between two lines about an experiment where there is no terminal


class SuiteProgress:
    """A bar per experiment on a terminal, a line a minute elsewhere."""

    def __init__(
        self,
        experiments: Sequence[Experiment],
        entries: Sequence[TableEntry],
        folders: Folders,
        preset: SuitePreset,
        workers: int,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.experiments, self.folders, self.preset, self.workers = experiments, folders, preset, workers
        self.labels = {
            entry.experiment.key: f"{entry.task} {entry.gap} {entry.row} seed {entry.experiment.seed}"
            for entry in reversed(entries)
        }
        self._began: dict[tuple[str, str], tuple[float, int]] = {}
        self._said: dict[str, float] = {}
        self._bars: dict[str, Any] = {}
        self._busy: set[str] = set()
        self._console = Console(highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            refresh_per_second=2,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> SuiteProgress:
        self._progress.__enter__()
        self._say_left()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(error_type, error, trace)

    def __call__(self, notice: Notice) -> None:
        """Show it."""
        experiment, key = notice.experiment, notice.experiment.key
        label = self.labels.get(key, f"{experiment.task} {experiment.method} seed {experiment.seed}")
        if notice.kind == "progress":
            self._advance(key, label, notice)
            return
        if notice.kind == "started":
            self._say(f"{label}: started ({key})")
            return
        bar = self._bars.pop(key, None)
        if bar is not None:
            self._progress.remove_task(bar)
        if notice.kind == "busy":
            if key not in self._busy:  # it is tried again and again
                self._say(f"{label}: another process is at it")
            self._busy.add(key)
        elif notice.kind == "failed":
            self._say(f"{label}: failed: {notice.text}")
        else:
            self._say(f"{label}: done")
            self._say_left()

    def _advance(self, key: str, label: str, notice: Notice) -> None:
        now = time.monotonic()
        since, first = self._began.setdefault((key, notice.stage), (now, notice.done))
        left = ""
        if notice.done > first and now - since > 5:
            seconds = (now - since) * (notice.total - notice.done) / (notice.done - first)
            left = f"about {in_words(seconds)} left of it"
        if not self._progress.disable:
            if key not in self._bars:
                self._bars[key] = self._progress.add_task(label, total=None, left="")
            description = f"{label}: {notice.stage}"
            self._progress.update(
                self._bars[key], description=description, completed=notice.done, total=notice.total, left=left
            )
        elif now - self._said.get(key, 0.0) > EVERY:
            self._said[key] = now
            unit = "step" if notice.stage == TRAIN else "number"
            text = f"{label}: {notice.stage}, {unit} {notice.done} of {notice.total}"
            self._say(f"{text}, {left}" if left else text)

    def _say_left(self) -> None:
        done = sum(self.folders.is_done(experiment) for experiment in self.experiments)
        estimate = Estimate(self.preset, self.folders.results)
        seconds = estimate.left(self.experiments, self.folders, self.workers)
        rest = f", about {in_words(seconds)} left" if seconds else ""
        self._say(f"{done} of {len(self.experiments)} experiments done{rest}")

    def _say(self, text: str) -> None:
        if self._progress.disable:
            print(text, flush=True)
        else:
            self._progress.console.print(text)
