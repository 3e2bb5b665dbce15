"""What a run folder says, read with tolerance: what is absent or damaged is noted, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.report.tables import EpisodeHistory, WindowTable, read_episodes, read_windows
from beacon.training.config import DataOptions, TrainConfig
from beacon.training.records import DomainRecord, read_records
from beacon.training.run_folder import CONFIG, DATA, METRICS

WEIGHTS, EPISODES = "weights", "episodes.parquet"


@dataclass(frozen=True)
class Missing:
    """A part that the report cannot show, why, and what would make it appear."""

    section: str
    text: str
    command: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """One result file of ``beacon evaluate``."""

    path: Path
    result: Mapping[str, Any]

    @property
    def setting(self) -> tuple[str, str, str, str]:
        """Task, size, domain and region."""
        return tuple(str(self.result.get(key, "?")) for key in ("task", "size", "domain", "region"))  # type: ignore[return-value]

    @property
    def states(self) -> str:
        """Identifies the initial states: results with the same ones can be paired."""
        return str(self.result.get("initial_states", {}).get("sha256", self.path))

    def outcomes(self, criterion: str) -> list[float]:
        """One number an episode."""
        return [float(episode.get(criterion, 0.0)) for episode in self.result["episodes"]]

    @property
    def criteria(self) -> list[str]:
        """What was measured, ``success`` first; names that say the same as another are left out."""
        found: list[str] = []
        for name in self.result.get("rates", {}):
            if all(self.outcomes(name) != self.outcomes(other) for other in found):
                found.append(name)
        return found


@dataclass
class RunRecord:
    """Everything that was found in a run folder."""

    path: Path
    name: str
    config: Mapping[str, Any]
    train_config: TrainConfig | None = None
    domains: list[DomainRecord] = field(default_factory=list)  # data.json
    train: list[dict[str, Any]] = field(default_factory=list)
    refreshes: list[dict[str, Any]] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)
    episodes: EpisodeHistory | None = None
    first_windows: WindowTable | None = None
    windows: WindowTable | None = None  # at the newest checkpoint
    evaluations: list[Evaluation] = field(default_factory=list)
    checkpoint: Path | None = None
    description: Mapping[str, Any] = field(default_factory=dict)  # policy.json
    missing: list[Missing] = field(default_factory=list)

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.config.get("method", "unknown method"))

    @property
    def data(self) -> DataOptions | None:
        """Which demonstrations the run read, by the absolute paths that it noted."""
        if self.train_config is None:
            return None
        options = self.train_config.data
        source = [Path(domain.file) for domain in self.domains if not domain.is_target]
        target = [Path(domain.file) for domain in self.domains if domain.is_target]
        if len(source) != len(options.source) or len(target) != (options.target is not None):
            return options
        return replace(options, source=tuple(source), target=target[0] if target else None)

    @property
    def weighs(self) -> bool:
        """Whether the method has weights to show."""
        return self.windows is not None or self.episodes is not None

    @property
    def planned_steps(self) -> int | None:
        """Gradient steps that the run was to take."""
        steps = _section(self.config, "optimization").get("steps")
        return int(steps) if isinstance(steps, int) else None

    @property
    def last_step(self) -> int:
        """Gradient steps that it took as far as its metrics say."""
        return max((int(entry["step"]) for entry in self.train), default=0)

    def option(self, section: str, name: str) -> Any:
        """A value of the configuration, None when it is not there."""
        return _section(self.config, section).get(name)

    def note(self, section: str, text: str, command: str | None = None) -> None:
        """Say what is missing."""
        self.missing.append(Missing(section, text, command))


def read_run(path: Path, name: str | None = None) -> RunRecord:
    """Read a run folder. Only a folder that has nothing of a run is refused."""
    if not path.is_dir():
        raise UserError(f"{path} is not a run folder")
    if not any((path / part).exists() for part in (CONFIG, METRICS, "checkpoints")):
        raise UserError(f"{path} is not a run folder: it has neither {CONFIG} nor {METRICS}")
    record = RunRecord(path, name or path.resolve().name, {})
    _read_config(record)
    _read_metrics(record)
    _read_checkpoint(record)
    _read_weights(record)
    _read_evaluations(record)
    return record


def read_runs(paths: list[Path]) -> list[RunRecord]:
    """Several runs, with names that tell them apart."""
    resolved = [path.resolve() for path in paths]
    names = [path.name for path in resolved]
    if len(set(names)) < len(names):
        names = [f"{path.parent.name}/{path.name}" for path in resolved]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return [read_run(path, name) for path, name in zip(paths, names, strict=True)]


def _read_config(record: RunRecord) -> None:
    file = record.path / CONFIG
    try:
        values = yaml.safe_load(file.read_text())
        if not isinstance(values, Mapping):
            raise ValueError("not a configuration")
        record.config = values
        record.train_config = TrainConfig.from_dict(values)
    except FileNotFoundError:
        record.note("configuration", f"This run has no {CONFIG}.")
    except (OSError, ValueError, yaml.YAMLError, AttributeError) as error:
        record.note("configuration", f"{CONFIG} could not be read in full: {_first_line(error)}")
    with suppress(UserError, OSError, ValueError):  # the configuration names the files too
        record.domains = read_records(record.path / DATA)


def _read_metrics(record: RunRecord) -> None:
    file = record.path / METRICS
    if not file.exists():
        record.note("learning", f"This run has no {METRICS}: nothing was logged yet.")
        return
    damaged = 0
    kinds: dict[str, dict[int, dict[str, Any]]] = {"train": {}, "refresh": {}, "validation": {}}
    for entry in _lines(file):
        if entry is None:
            damaged += 1
        elif entry["kind"] in kinds:
            kinds[entry["kind"]][entry["step"]] = entry  # a resumed run may say a step again
    record.train, record.refreshes, record.validation = (
        [entries[step] for step in sorted(entries)] for entries in kinds.values()
    )
    if damaged:
        record.note("learning", f"{damaged} line(s) of {METRICS} were cut off or damaged and left out.")
    if not record.train:
        record.note("learning", f"{METRICS} has no training steps yet.")
    planned = record.planned_steps
    if record.train and planned and record.last_step < planned:
        record.note(
            "learning",
            f"This run has taken {record.last_step:,} of {planned:,} steps; it goes on with:",
            f"beacon train --out {record.path} --resume",
        )


def _lines(file: Path) -> Iterator[dict[str, Any] | None]:
    """Entries of a metrics file, None for a line that cannot be used."""
    for line in file.read_bytes().splitlines():
        try:
            entry = json.loads(line)
            usable = isinstance(entry, dict) and isinstance(entry["step"], int) and "kind" in entry
        except (ValueError, KeyError):
            usable, entry = False, None
        yield entry if usable else None


def _read_checkpoint(record: RunRecord) -> None:
    from beacon.policy.checkpoint import find_checkpoint, read_description

    try:
        record.checkpoint = find_checkpoint(record.path)
        record.description = read_description(record.checkpoint)
    except UserError as error:
        record.checkpoint = None
        record.note("map", f"This run has no usable checkpoint, so no embeddings ({_first_line(error)}).")


def _read_weights(record: RunRecord) -> None:
    folder = record.path / WEIGHTS
    tables = sorted(folder.glob("windows-*.parquet"))
    try:
        if (folder / EPISODES).exists():
            record.episodes = read_episodes(folder / EPISODES)
        if tables:
            record.windows = read_windows(tables[-1])
            record.first_windows = read_windows(tables[0])
    except (OSError, ValueError, KeyError) as error:
        record.note("weights", f"The tables of the weights are damaged: {_first_line(error)}")
    if not record.weighs and record.refreshes:
        record.note(
            "weights", "No weights were saved yet: they are written with the first checkpoint of a run."
        )


def _read_evaluations(record: RunRecord) -> None:
    for file in sorted((record.path / "eval").glob("*.json")):
        try:
            result = json.loads(file.read_text())
            if not result["episodes"] or not result["rates"]:
                raise ValueError("it has no episodes")
            evaluation = Evaluation(file, result)
            for criterion in evaluation.criteria:
                evaluation.outcomes(criterion)
            record.evaluations.append(evaluation)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            record.note("success", f"eval/{file.name} could not be read: {_first_line(error)}")


def series(entries: list[dict[str, Any]], key: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and values of the entries that have a finite ``key``."""
    found = [
        (entry["step"], float(entry[key])) for entry in entries if isinstance(entry.get(key), int | float)
    ]
    steps, values = np.array(found, dtype=np.float64).reshape(-1, 2).T
    finite = np.isfinite(values)
    return steps[finite], values[finite]


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
