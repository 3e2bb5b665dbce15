"""What a run writes besides checkpoints: metrics and the history of its weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from beacon.data import Windows
from beacon.data.domains import Domains
from beacon.methods import EpochReport
from beacon.runs import RunFolder, WeightHistory
from beacon.training.checkpoint import Progress
from beacon.training.config import TrainConfig
from beacon.training.early_looks import EarlyLooks, Look
from beacon.training.metrics import EVALUATION, Metrics


class NoRecord:
    """Writes nothing, for the processes of a run that leave it to the first one."""

    def refresh(self, epoch: int, step: int, report: EpochReport) -> None:
        """What a method did between two epochs."""
        return

    def write(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """A set of scalars at a gradient step, as `Metrics.write`."""
        return

    def sync(self, step: int) -> None:
        """Put everything on the disk, before a checkpoint."""
        return

    def saved(self, progress: Progress, checkpoint: Path) -> None:
        """A checkpoint was written."""
        return

    def finish(self) -> None:
        """The run has come to its end: wait for what others still find out about it."""
        return

    def close(self) -> None:
        """Finish all files."""
        return


class RunRecord(NoRecord):
    """Writes metrics and weights into the run folder."""

    def __init__(
        self,
        folder: RunFolder,
        config: TrainConfig,
        windows: Windows,
        domains: Domains,
        progress: Progress,
        looks: EarlyLooks | None = None,
    ) -> None:
        """Start, or go on at ``progress``: what was written after it is forgotten.

        Args:
            folder: of the run.
            config: of the run.
            windows: all of them.
            domains: of the run.
            progress: of the newest checkpoint.
            looks: evaluates checkpoints while the run goes on.
        """
        self._folder, self._options, self._looks = folder, config.run.looks, looks
        self._history = WeightHistory(folder.weights, windows, domains.names)
        if progress.step:
            self._history.restore(progress.epoch, progress.step)
        folder.rewind_metrics(progress.step)
        self._metrics = Metrics(folder, config, progress.step)
        self._members = {name: windows.domain == number for number, name in enumerate(domains.names)}

    def refresh(self, epoch: int, step: int, report: EpochReport) -> None:
        """What a method did between two epochs."""
        self._metrics.write_refresh(epoch, step, report, self._members)
        self._history.add(epoch, step, report)

    def write(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """A set of scalars at a gradient step, as `Metrics.write`."""
        self._metrics.write(event, step, values)
        if self._looks is not None:
            self._write_looks(self._looks.news())

    def sync(self, step: int) -> None:
        """Put everything on the disk, before a checkpoint."""
        self._history.save(step)
        self._folder.sync_metrics()

    def saved(self, progress: Progress, checkpoint: Path) -> None:
        """Have a checkpoint looked at when it is time."""
        if self._looks is not None and self._options.is_due(progress.epoch):
            self._looks.saved(progress.step, checkpoint)

    def finish(self) -> None:
        """Wait for the last looks."""
        if self._looks is not None:
            self._write_looks(self._looks.finish())

    def _write_looks(self, looks: Iterable[Look]) -> None:
        for look in looks:
            self._metrics.write(EVALUATION, look.step, look.values)

    def close(self) -> None:
        """Finish all files."""
        self._metrics.close()
