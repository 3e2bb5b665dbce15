"""A run folder: config.yaml, metrics.jsonl, checkpoints/, weights/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from beacon.data import Windows
from beacon.data.files import replacing, write_bytes, writing
from beacon.errors import UserError
from beacon.methods import EpochReport
from beacon.training.config import TrainConfig, differences

CONFIG, METRICS, WEIGHTS, EPISODES = "config.yaml", "metrics.jsonl", "weights", "episodes.parquet"


class RunFolder:
    """Where a run keeps everything; made new, or taken up again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    def create(self, config: TrainConfig) -> None:
        """Start a new run; one that is already there is never overwritten."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserError(
                f"{self.path} already exists; say --resume to go on with it, or choose another --out"
            )
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_bytes(self.path / CONFIG, yaml.safe_dump(config.to_dict(), sort_keys=False).encode())

    def read_config(self) -> TrainConfig:
        """The configuration that the run was started with."""
        file = self.path / CONFIG
        try:
            values = yaml.safe_load(file.read_text())
        except FileNotFoundError:
            raise UserError(f"{self.path} is not a run: it has no {CONFIG}") from None
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: damaged ({error})") from None
        if not isinstance(values, Mapping):
            raise UserError(f"{file}: damaged, not a configuration")
        return TrainConfig.from_dict(values)

    def check_same(self, config: TrainConfig) -> None:
        """Refuse to go on with a run under another configuration; how it is run may differ."""
        mine, theirs = config.to_dict(), self.read_config().to_dict()
        mine.pop("run"), theirs.pop("run")
        found = differences(theirs, mine)
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
            except ValueError:  # cut off in the middle of writing
                continue
            if entry["step"] < step or (entry["step"] == step and entry["kind"] != "refresh"):
                lines.append(line + "\n")
        write_bytes(file, "".join(lines).encode())

    def append_metrics(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        line = json.dumps({"kind": kind, "step": step, **values}) + "\n"
        with writing(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write(line)


class WeightHistory:
    """Per-episode means of every refresh, and all windows at checkpoints, as Parquet tables."""

    def __init__(self, run: RunFolder, windows: Windows, domains: tuple[str, ...]) -> None:
        self._folder, self._windows, self._domains = run.path / WEIGHTS, windows, domains
        self._counts = np.bincount(windows.episode)
        self._refreshes: list[tuple[int, int, dict[str, NDArray[np.float32]]]] = []
        self._last: EpochReport | None = None

    def add(self, epoch: int, step: int, report: EpochReport) -> None:
        """Remember one refresh."""
        if report.weights is None:
            return
        self._last = report
        columns = {"weight": report.weights, "loss": report.losses, "discrepancy": report.discrepancies}
        means = {name: self._means(values) for name, values in columns.items() if values is not None}
        self._refreshes.append((epoch, step, means))

    def save(self, step: int) -> None:
        """Write both tables; the one of the episodes holds all refreshes so far."""
        if not self._refreshes:
            return
        with replacing(self._folder / EPISODES) as temporary:
            pq.write_table(self._episode_table(), temporary)
        if self._last is not None:
            with replacing(self._folder / f"windows-{step:08d}.parquet") as temporary:
                pq.write_table(self._window_table(self._last), temporary)

    def restore(self, epoch: int) -> None:
        """Take up the refreshes before ``epoch`` of an earlier part of the run."""
        file = self._folder / EPISODES
        if not file.exists():
            return
        table = pq.read_table(file).to_pydict()
        names = [name for name in ("weight", "loss", "discrepancy") if name in table]
        size = len(self._counts)
        for start in range(0, len(table["epoch"]), size):
            if table["epoch"][start] < epoch:
                part = {name: np.array(table[name][start : start + size], np.float32) for name in names}
                self._refreshes.append((table["epoch"][start], table["step"][start], part))

    def _means(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        return (np.bincount(self._windows.episode, weights=values) / self._counts).astype(np.float32)

    def _episode_table(self) -> pa.Table:
        size, count = len(self._counts), len(self._refreshes)
        domains = [self._domains[d] for d in self._windows.episode_domain]
        columns: dict[str, Any] = {
            "epoch": np.repeat([epoch for epoch, _, _ in self._refreshes], size),
            "step": np.repeat([step for _, step, _ in self._refreshes], size),
            "domain": pa.array(domains * count).dictionary_encode(),
            "episode": np.tile(np.arange(size), count),
            "name": pa.array(self._windows.episode_names * count).dictionary_encode(),
        }
        for name in self._refreshes[0][2]:
            columns[name] = np.concatenate([means[name] for _, _, means in self._refreshes])
        return pa.table(columns)

    def _window_table(self, report: EpochReport) -> pa.Table:
        windows = self._windows
        columns: dict[str, Any] = {
            "domain": pa.array([self._domains[d] for d in windows.domain]).dictionary_encode(),
            "episode": windows.episode,
            "time": windows.step,
            "phase": windows.phase,
        }
        for name, values in (
            ("weight", report.weights),
            ("loss", report.losses),
            ("discrepancy", report.discrepancies),
        ):
            if values is not None:
                columns[name] = values
        return pa.table(columns)
