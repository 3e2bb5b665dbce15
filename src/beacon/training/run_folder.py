"""A run folder: config.yaml, data.json, metrics.jsonl, checkpoints/, weights/, references/."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from beacon.errors import UserError
from beacon.files import sync, write_bytes, writing
from beacon.plain import differences
from beacon.training.config import TrainConfig, read_config
from beacon.training.records import DomainRecord, read_records, to_json

try:
    import fcntl
except ImportError:  # Windows: nobody is kept from resuming a run that is still going
    fcntl = None  # type: ignore[assignment]

CONFIG, DATA, METRICS, LOCK = "config.yaml", "data.json", "metrics.jsonl", ".lock"


class RunFolder:
    """Where a run keeps everything; made new, or taken up again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.weights = path / "weights"

    def reference(self, name: str) -> Path:
        """Where the parameters of a reference policy are kept."""
        return self.path / "references" / f"{name}.safetensors"

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / CONFIG).exists()

    def check_free(self) -> None:
        """Refuse a place where there is something; a run is never overwritten."""
        # A start that was cut off before config.yaml leaves hidden files at most.
        if self.path.exists() and (
            not self.path.is_dir() or any(not entry.name.startswith(".") for entry in self.path.iterdir())
        ):
            advice = "say --resume to go on with it, or choose another --out"
            raise UserError(
                f"{self.path} already exists; {advice if self.exists else 'choose another --out'}"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away; a process that dies lets go by itself."""
        with writing(self.path / LOCK):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / LOCK).open("w")
        with lock:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise UserError(f"{self.path}: another process is training in it") from None
            yield

    def start(self, config: TrainConfig, data: Sequence[DomainRecord]) -> None:
        """Start a new run."""
        self.check_free()
        write_bytes(self.path / CONFIG, yaml.safe_dump(config.to_dict(), sort_keys=False).encode())
        write_bytes(self.path / DATA, to_json(data))

    def take_up(self, data: Sequence[DomainRecord]) -> None:
        """Go on with a run: with the same demonstrations, and without what a kill has left half-written."""
        if (self.path / DATA).exists():
            for before, now in zip(read_records(self.path / DATA), data, strict=True):
                if difference := before.difference(now):
                    raise UserError(
                        f"{now.file} has changed since {self.path} was started: {difference}; "
                        "bring it back, or start a new run with another --out"
                    )
        else:
            write_bytes(self.path / DATA, to_json(data))
        for folder in (self.path, self.checkpoints, self.weights):
            for left in folder.glob(".*.tmp"):
                left.unlink()

    def read_config(self) -> TrainConfig:
        """The configuration that the run was started with."""
        if not self.exists:
            raise UserError(f"{self.path} is not a run: it has no {CONFIG}")
        return read_config(self.path / CONFIG)

    def check_same(self, config: TrainConfig) -> None:
        """Refuse to go on with a run under another configuration; how it is run may differ."""
        found = differences(self.read_config().decisive(), config.decisive())
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise UserError(
                f"{self.path} was started with another configuration ({found[0]}{more}); "
                "resume it with --resume --out alone, or choose another --out"
            )

    def has_checkpoint(self) -> bool:
        """Whether there is anything to resume from."""
        return (self.checkpoints / "last").exists()

    # Metrics

    def rewind_metrics(self, step: int) -> None:
        """Forget the lines that a run wrote after its last checkpoint, at ``step``."""
        file = self.path / METRICS
        if not file.exists():
            return
        lines = []
        for line in file.read_text().splitlines():
            try:
                entry = json.loads(line)
                # A refresh belongs to the epoch after its step.
                keep = entry["step"] < step + (entry["kind"] != "refresh")
            except (ValueError, KeyError, TypeError):  # cut off in the middle of writing
                continue
            if keep:
                lines.append(line + "\n")
        write_bytes(file, "".join(lines).encode())

    def append_metrics(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        line = json.dumps({"kind": kind, "step": step, **values}) + "\n"
        with writing(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write(line)

    def sync_metrics(self) -> None:
        """Put all lines so far on the disk."""
        if (self.path / METRICS).exists():
            with writing(self.path / METRICS):
                sync(self.path / METRICS)
