"""A run folder as the trainer writes it: made new, or taken up again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from beacon.data.decisions import DatasetDecisions, to_lines
from beacon.errors import UserError
from beacon.files import sync, write_bytes, writing
from beacon.runs.checkpoints import Checkpoints
from beacon.runs.data_records import DomainRecord, read_records, to_json
from beacon.runs.layout import (
    CHECKPOINTS,
    CONFIG,
    DATA,
    DECISIONS,
    JOINT_TARGET,
    LOCK,
    METRICS,
    REFERENCES,
    WEIGHTS,
)
from beacon.runs.lock import exclusive
from beacon.runs.metrics import lines_until
from beacon.runs.run import Run


class RunFolder:
    """Where a run keeps everything.

    Args:
        path: the run folder; need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / CHECKPOINTS
        self.weights = path / WEIGHTS

    def reference(self, name: str) -> Path:
        """Where the parameters of a reference policy are kept."""
        return self.path / REFERENCES / f"{name}.safetensors"

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / CONFIG).exists()

    def check_free(self) -> None:
        """Refuse a folder that has something in it; a run is never overwritten."""
        # A start that was cut off before config.yaml leaves hidden files and the card of its targets at most.
        if self.path.exists() and (
            not self.path.is_dir()
            or any(not e.name.startswith(".") and e.name != JOINT_TARGET for e in self.path.iterdir())
        ):
            advice = "say --resume to go on with it, or choose another --out"
            raise UserError(
                f"{self.path} already exists; {advice if self.exists else 'choose another --out'}"
            )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes away while a block runs."""
        return exclusive(self.path / LOCK, f"{self.path}: another process is training in it")

    def start(
        self,
        config: Mapping[str, Any],
        data: Sequence[DomainRecord],
        decisions: Sequence[DatasetDecisions] = (),
    ) -> None:
        """Start a new run.

        Args:
            config: plain values, for config.yaml.
            data: the domains that it is trained on.
            decisions: about its demonstrations; where there are any, they are also written as a file of
                their own, for another run.
        """
        self.check_free()
        write_bytes(self.path / CONFIG, yaml.safe_dump(dict(config), sort_keys=False).encode())
        write_bytes(self.path / DATA, to_json(data))
        if decisions:
            write_bytes(self.path / DECISIONS, to_lines(decisions))

    def take_up(self, data: Sequence[DomainRecord]) -> None:
        """Go on with a run: with the same demonstrations, and without what a kill has left behind.

        Args:
            data: the domains as they are now.
        """
        if (self.path / DATA).exists():
            self._check_data(data)
        else:
            write_bytes(self.path / DATA, to_json(data))
        for folder in (self.path, self.checkpoints, self.weights):
            for left in folder.glob(".*.tmp"):
                left.unlink()
        keep = Run(self.path).option("run", "keep")
        if isinstance(keep, int) and keep >= 1:
            # A kill between naming the newest checkpoint and removing the oldest leaves one too many.
            Checkpoints(self.checkpoints).prune(keep)

    def _check_data(self, data: Sequence[DomainRecord]) -> None:
        before = read_records(self.path / DATA)
        if len(before) != len(data):
            raise UserError(
                f"{self.path} was started with {len(before)} domains, not {len(data)}; "
                "bring them back, or start a new run with another --out"
            )
        for then, now in zip(before, data, strict=True):
            if difference := then.difference(now):
                raise UserError(
                    f"{now.file} has changed since {self.path} was started: {difference}; "
                    "bring it back, or start a new run with another --out"
                )

    def has_checkpoint(self) -> bool:
        """Whether there is anything to resume from."""
        return Checkpoints(self.checkpoints).any

    # Metrics

    def rewind_metrics(self, step: int) -> None:
        """Forget the lines that a run wrote after its last checkpoint, and those that are damaged.

        Args:
            step: of the last checkpoint.
        """
        file = self.path / METRICS
        if file.exists():
            write_bytes(file, lines_until(file, step))

    def append_metrics(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl.

        Args:
            kind: train, refresh, validation or evaluation.
            step: gradient steps done.
            values: numbers by name.
        """
        line = json.dumps({"kind": kind, "step": step, **values}) + "\n"
        with writing(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write(line)

    def sync_metrics(self) -> None:
        """Put all lines so far on the disk."""
        if (self.path / METRICS).exists():
            with writing(self.path / METRICS):
                sync(self.path / METRICS)
