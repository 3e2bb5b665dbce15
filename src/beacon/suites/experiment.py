"""An experiment: one training run with its evaluations, as data. Its key is a hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from beacon.methods.auxiliary import AuxiliaryLoss
from beacon.plain import changed, from_plain, to_plain
from beacon.sim.domains import DOMAINS, PAPER_DOMAINS
from beacon.sim.tasks import known_task
from beacon.training.config import DataOptions, RunOptions, TrainConfig, preset_config

FORMAT = 1  # of the keys


def digest(content: Any) -> str:
    """A short name of plain values."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class DatasetSpec:
    """Demonstrations that a suite makes for itself."""

    task: str
    domain: str
    demos: int
    size: str = "small"
    region: str = "train"
    seed: int = 0
    corruptions: tuple[tuple[str, float], ...] = ()  # names and their shares of the demonstrations
    corruption_seed: int | None = None  # of which demonstrations are corrupted; None: as seed
    label: str | None = None  # name of the file; None: a name made of all of this
    # Repaired by an audit against the first so many demonstrations of a target; None: as it is.
    repaired_for: DatasetSpec | None = None
    repaired_demos: int = 0
    # Expanded from the first so many demonstrations of the expert, in the manner of MimicGen; 0: all are his.
    expanded_from: int = 0

    def configuration(self) -> dict[str, Any]:
        """All that decides the demonstrations.

        These are the names under which stored results are found: "faults" is what corruptions were called.
        """
        return {
            "task": self.task,
            "domain": self.domain,
            "demos": self.demos,
            "size": self.size,
            "region": self.region,
            "seed": self.seed,
            "faults": to_plain(self.corruptions),
            **({} if self.corruption_seed is None else {"corruption_seed": self.corruption_seed}),
            **(
                {}
                if self.repaired_for is None
                else {"repaired_for": [self.repaired_for.configuration(), self.repaired_demos]}
            ),
            **({"expanded_from": self.expanded_from} if self.expanded_from else {}),
            **_task_revision(self.task),
            **_own_domain(self.domain),
        }

    @cached_property
    def key(self) -> str:
        """A hash of all of it."""
        return digest({"format": FORMAT, **self.configuration()})

    @property
    def file_name(self) -> str:
        """Also the domain's name in tables of weights."""
        task = self.task.replace("/", "-")
        return f"{self.label or f'{task}-{self.domain}-{self.key[:10]}'}.hdf5"

    def sound(self) -> DatasetSpec:
        """The same demonstrations before any are corrupted."""
        label = None if self.label is None else f"{self.label}-sound"
        return replace(self.unrepaired(), corruptions=(), corruption_seed=None, label=label)

    def unrepaired(self) -> DatasetSpec:
        """The same demonstrations before any are repaired."""
        label = None if self.label is None else f"{self.label}-unrepaired"
        label = self.label if self.repaired_for is None else label
        return replace(self, repaired_for=None, repaired_demos=0, label=label)

    def seeds(self) -> DatasetSpec:
        """The expert's demonstrations that these are expanded from."""
        label = None if self.label is None else f"{self.label}-seeds"
        return replace(self, demos=self.expanded_from, expanded_from=0, label=label)


@dataclass(frozen=True)
class EvaluationSpec:
    """Rollouts from fixed initial states; the seed is that of the states."""

    domain: str
    region: str = "train"
    episodes: int = 100
    seed: int = 1000

    def configuration(self) -> dict[str, Any]:
        """All that decides it but the policy and the task."""
        return {**to_plain(self), **_own_domain(self.domain)}


@dataclass(frozen=True)
class Experiment:
    """One run. Options that are not named are the method's and the preset's own."""

    method: str
    sources: tuple[DatasetSpec, ...]
    target: DatasetSpec
    target_demos: int  # the first of the target's
    evaluations: tuple[EvaluationSpec, ...]
    preset: str = "cpu"  # of `beacon train`
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method, nested as its dataclass
    auxiliary: tuple[Mapping[str, Any], ...] = ()  # auxiliary losses, each with its name under "part"
    optimization: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    image_size: int | None = None
    # Co-training at the share that the source has in this experiment's weights, over its run; it has to be
    # done before.
    match: Experiment | None = None
    # Whether the source's readings get as much noise as the target's have.
    match_noise: bool = False
    # Also map the embeddings of source and target windows, and measure how well they mix.
    align: bool = False

    @property
    def task(self) -> str:
        """Of all its demonstrations."""
        return self.target.task

    @property
    def uses_target(self) -> bool:
        """Whether target demonstrations are read at all."""
        return self.method != "source-only"

    @property
    def uses_source(self) -> bool:
        """Whether source demonstrations are read at all."""
        return self.method != "target-only"

    def training(self) -> dict[str, Any]:
        """All that decides the policy, as plain values."""
        from beacon.methods import METHODS

        method = METHODS[self.method]
        revision = method.revision + (method.several_sources_revision if len(self.sources) > 1 else 0)
        return {
            "format": FORMAT,
            "method": self.method,
            **({"revision": revision} if revision > 1 else {}),
            "sources": [source.configuration() for source in self.sources] if self.uses_source else [],
            "target": self.target.configuration() if self.uses_target else None,
            "target_demos": self.target_demos if self.uses_target else None,
            "preset": self.preset,
            "seed": self.seed,
            **self._resolved(),
            "image_size": self.image_size,
            "match": None if self.match is None else self.match.training_key,
            **({"auxiliary": to_plain(self._auxiliary())} if self.auxiliary else {}),
            **({"match_noise": True} if self._matches_noise else {}),
        }

    @property
    def _matches_noise(self) -> bool:
        return self.match_noise and self.uses_source and self.uses_target

    def _auxiliary(self) -> tuple[AuxiliaryLoss, ...]:
        return tuple(from_plain(AuxiliaryLoss, values, "auxiliary") for values in self.auxiliary)

    def _resolved(self) -> dict[str, Any]:
        """Options, policy and optimisation with every default, so that a new default is a new experiment."""
        from beacon.methods import METHODS

        policy, optimization = preset_config(self.preset)
        return {
            "options": to_plain(changed(METHODS[self.method].default_options(), self.options)),
            "optimization": to_plain(replace(changed(optimization, self.optimization), seed=self.seed)),
            "policy": to_plain(changed(policy, self.policy)),
        }

    def configuration(self) -> dict[str, Any]:
        """All that decides the result."""
        evaluations = [{"size": self.target.size, **spec.configuration()} for spec in self.evaluations]
        decisive = {**self.training(), "task": self.task, "evaluations": evaluations}
        return {**decisive, "align": self._both_sides()} if self.align else decisive

    def _both_sides(self) -> dict[str, Any]:
        """Source and target, whether the method reads them or not."""
        return {
            "sources": [source.configuration() for source in self.sources],
            "target": self.target.configuration(),
            "target_demos": self.target_demos,
        }

    @cached_property
    def training_key(self) -> str:
        """The run folder's name: experiments that differ in their evaluations alone share a run."""
        return digest(self.training())

    @cached_property
    def key(self) -> str:
        """The name of the result."""
        return digest(self.configuration())

    @property
    def datasets(self) -> tuple[DatasetSpec, ...]:
        """What has to be there before it can be run."""
        source, target = self.uses_source or self.align, self.uses_target or self.align
        return (*(self.sources if source else ()), *((self.target,) if target else ()))

    @property
    def episodes(self) -> int:
        """Of all evaluations."""
        return sum(spec.episodes for spec in self.evaluations)

    def train_config(
        self, data: Path, *, ratio: float | None = None, device: str = "auto", threads: int | None = 1
    ) -> TrainConfig:
        """The run's configuration.

        Args:
            data: folder of the demonstrations.
            ratio: the share of the source where another experiment decides it.
            device: where to compute.
            threads: of torch; None leaves them as they are.
        """
        from beacon.methods import METHODS

        policy, optimization = preset_config(self.preset)
        overrides = dict(self.options)
        if self.match is not None:
            if ratio is None:
                raise ValueError("the share of the source is that of another experiment; say ratio")
            overrides["ratio"] = ratio
        task = known_task(self.task)
        source = tuple(data / spec.file_name for spec in self.sources) if self.uses_source else ()
        return TrainConfig(
            method=self.method,
            options=changed(METHODS[self.method].default_options(), overrides),
            preset="paper" if self.preset == "paper" else "cpu",
            auxiliary=self._auxiliary(),
            data=DataOptions(
                source=source,
                target=data / self.target.file_name if self.uses_target else None,
                target_demos=self.target_demos if self.uses_target else None,
                proprio=None if task is None else task.proprio,
                image_size=self.image_size,
                match_noise=self._matches_noise,
            ),
            policy=changed(policy, self.policy),
            optimization=replace(changed(optimization, self.optimization), seed=self.seed),
            run=RunOptions(device=device, threads=threads, tensorboard=False, keep=1),
        )

    def steps(self) -> int:
        """Gradient steps of the run."""
        _, optimization = preset_config(self.preset)
        return int(self.optimization.get("steps", optimization.steps))


def _task_revision(task: str) -> dict[str, Any]:
    """What tells a task from an earlier one of the same name."""
    cls = known_task(task)
    return {"revision": cls.revision} if cls is not None and cls.revision > 1 else {}


def _own_domain(domain: str) -> dict[str, Any]:
    """A domain of a user's package may change under its name, so its parameters decide as well."""
    known = DOMAINS.get(domain)
    return {} if known is None or domain in PAPER_DOMAINS else {"domain_parameters": known.as_dict()}
