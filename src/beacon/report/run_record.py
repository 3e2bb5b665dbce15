"""What a run folder says, read with tolerance: what is absent or damaged is noted, never an error."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.plain import from_plain
from beacon.policy.checkpoint import read_description
from beacon.runs import DomainRecord, EpisodeHistory, Evaluation, Run, WindowTable
from beacon.runs.evaluations import read_evaluation
from beacon.runs.layout import CONFIG, METRICS
from beacon.runs.metrics import MetricsLog
from beacon.runs.provenance import read_sessions
from beacon.training.config import DataOptions, OptimizationOptions, RunOptions, TrainConfig


@dataclass(frozen=True)
class Missing:
    """A part that the report cannot show, why, and what would make it appear."""

    section: str
    text: str
    command: str | None = None


@dataclass
class RunRecord:
    """Everything that was found in a run folder."""

    path: Path
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    train_config: TrainConfig | None = None
    domains: list[DomainRecord] = field(default_factory=list)  # data.json
    metrics: MetricsLog = field(default_factory=MetricsLog)
    episodes: EpisodeHistory | None = None
    windows: WindowTable | None = None  # at the newest checkpoint
    evaluations: list[Evaluation] = field(default_factory=list)
    checkpoint: Path | None = None
    versions: dict[str, str] = field(default_factory=dict)  # of the software that trained it
    sessions: list[dict[str, Any]] = field(default_factory=list)  # provenance.json
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
        steps = self.option("optimization", "steps")
        return int(steps) if isinstance(steps, int) else None

    @property
    def last_step(self) -> int:
        """Gradient steps that it took as far as its metrics say."""
        return self.metrics.last_step

    def option(self, section: str, name: str) -> Any:
        """A value of the configuration, None when it is not there."""
        part = self.config.get(section)
        return part.get(name) if isinstance(part, Mapping) else None

    def note(self, section: str, text: str, command: str | None = None) -> None:
        """Say what is missing.

        Args:
            section: where a reader would look for it.
            text: what is missing and why.
            command: that would make it.
        """
        self.missing.append(Missing(section, text, command))


def read_run(path: Path, name: str | None = None) -> RunRecord:
    """Read a run folder. Only a folder that has nothing of a run is refused.

    Args:
        path: the run folder.
        name: how the report calls it; by default the folder's own name.
    """
    if not path.is_dir():
        raise UserError(f"{path} is not a run folder")
    run = Run(path)
    if not run.exists:
        raise UserError(f"{path} is not a run folder: it has neither {CONFIG} nor {METRICS}")
    record = RunRecord(path, name or path.resolve().name)
    _read_config(run, record)
    _read_metrics(run, record)
    _read_checkpoint(run, record)
    _read_weights(run, record)
    _read_evaluations(run, record)
    return record


def read_runs(paths: list[Path]) -> list[RunRecord]:
    """Several runs, with names that tell them apart.

    Args:
        paths: the run folders.
    """
    resolved = [path.resolve() for path in paths]
    names = [path.name for path in resolved]
    if len(set(names)) < len(names):
        names = [f"{path.parent.name}/{path.name}" for path in resolved]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return [read_run(path, name) for path, name in zip(paths, names, strict=True)]


def _read_config(run: Run, record: RunRecord) -> None:
    if not (run.path / CONFIG).exists():
        record.note("configuration", f"This run has no {CONFIG}.")
    else:
        try:
            record.config = run.config
            record.train_config = _typed(run.config)
        except (UserError, AttributeError, TypeError, ValueError) as error:
            record.note("configuration", f"{CONFIG} could not be read in full: {first_line(error)}")
    with suppress(UserError):  # the configuration names the files too
        record.domains = run.domains
    record.sessions = read_sessions(run.path)


def _typed(values: Mapping[str, Any]) -> TrainConfig:
    """The configuration, with every value of the type that it has to have."""
    config = TrainConfig.from_dict(values)
    for section, options in (
        ("data", DataOptions),
        ("optimization", OptimizationOptions),
        ("run", RunOptions),
    ):
        from_plain(options, values[section], section)
    return config


def _read_metrics(run: Run, record: RunRecord) -> None:
    if not (run.path / METRICS).exists():
        record.note("training", f"This run has no {METRICS}: nothing was logged yet.")
        return
    try:
        record.metrics = run.metrics
    except UserError as error:
        record.note("training", f"{METRICS} could not be read: {first_line(error)}")
        return
    damaged = record.metrics.damaged
    if damaged:
        record.note("training", f"{damaged} line(s) of {METRICS} were cut off or damaged and left out.")
    if not record.metrics.train:
        record.note("training", f"{METRICS} has no training steps yet.")
    planned = record.planned_steps
    if record.metrics.train and planned and record.last_step < planned:
        record.note(
            "training",
            f"This run has taken {record.last_step:,} of {planned:,} steps; it goes on with:",
            f"beacon train --out {record.path} --resume",
        )


def _read_checkpoint(run: Run, record: RunRecord) -> None:
    try:
        checkpoint = run.checkpoint
        versions = read_description(checkpoint).get("versions")
    except UserError as error:
        record.note("map", f"This run has no usable checkpoint, so no embeddings ({first_line(error)}).")
        return
    record.checkpoint = checkpoint
    if isinstance(versions, Mapping):
        record.versions = {str(name): str(version) for name, version in versions.items()}


def _read_weights(run: Run, record: RunRecord) -> None:
    damage = "The tables of the weights are damaged: "
    try:
        record.episodes = run.episodes
    except UserError as error:
        record.note("weights", damage + first_line(error))
    try:
        record.windows = run.windows
    except UserError as error:
        record.note("weights", damage + first_line(error))
    if not _same_domains(record):
        record.episodes = record.windows = None
        record.note("weights", f"{damage}they are of other domains than the rest of the run.")
    if not record.weighs and record.metrics.refreshes:
        record.note(
            "weights", "No weights were saved yet: they are written with the first checkpoint of a run."
        )


def _same_domains(record: RunRecord) -> bool:
    """Whether tables and data.json speak of the same domains."""
    known = [table.domains for table in (record.windows, record.episodes) if table is not None]
    if record.domains:
        known.append([domain.name for domain in record.domains])
    return all(sorted(names) == sorted(known[0]) for names in known)


def _read_evaluations(run: Run, record: RunRecord) -> None:
    for file in run.evaluation_files:
        try:
            record.evaluations.append(read_evaluation(file))
        except UserError as error:
            record.note("success", f"eval/{file.name} could not be read: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """What went wrong, in one line."""
    return (str(error) or type(error).__name__).splitlines()[0]
