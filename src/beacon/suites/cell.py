"""A cell: one training run with its evaluations, as data. Its key is a hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.plain import changed, to_plain
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
    faults: tuple[tuple[str, float], ...] = ()  # kinds and their shares of the demonstrations

    @cached_property
    def key(self) -> str:
        """A hash of all of it."""
        return digest({"format": FORMAT, **_plain(self)})

    @property
    def file_name(self) -> str:
        """Also the domain's name in tables of weights."""
        return f"{self.task}-{self.domain}-{self.key[:10]}.hdf5"


@dataclass(frozen=True)
class EvaluationSpec:
    """Rollouts from fixed initial states; the seed is that of the states."""

    domain: str
    region: str = "train"
    episodes: int = 100
    seed: int = 1000


@dataclass(frozen=True)
class Cell:
    """One run. Options that are not named are the method's and the preset's own."""

    method: str
    sources: tuple[DatasetSpec, ...]
    target: DatasetSpec
    target_demos: int  # the first of the target's
    evaluations: tuple[EvaluationSpec, ...]
    preset: str = "cpu"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method, nested as its dataclass
    optimization: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    image_size: int | None = None
    # Co-training at the share that the source has in this cell's weights, over its run; it has to be done
    # before.
    match: Cell | None = None
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
            "sources": [_plain(source) for source in self.sources] if self.uses_source else [],
            "target": _plain(self.target) if self.uses_target else None,
            "target_demos": self.target_demos if self.uses_target else None,
            "preset": self.preset,
            "seed": self.seed,
            **self._resolved(),
            "image_size": self.image_size,
            "match": None if self.match is None else self.match.training_key,
        }

    def _resolved(self) -> dict[str, Any]:
        """Options, policy and optimisation with every default, so that a new default is a new cell."""
        from beacon.methods import METHODS

        policy, optimization = preset_config(self.preset)
        parts = {
            "options": changed(METHODS[self.method].default_options(), self.options),
            "optimization": replace(changed(optimization, self.optimization), seed=self.seed),
            "policy": changed(policy, self.policy),
        }
        return {name: to_plain(part) for name, part in parts.items()}

    def configuration(self) -> dict[str, Any]:
        """All that decides the result."""
        evaluations = [{"size": self.target.size, **_plain(one)} for one in self.evaluations]
        decisive = {**self.training(), "task": self.task, "evaluations": evaluations}
        return {**decisive, "align": _both(self)} if self.align else decisive

    @cached_property
    def training_key(self) -> str:
        """The run folder's name: cells that differ in their evaluations alone share a run."""
        return digest(self.training())

    @cached_property
    def key(self) -> str:
        """The name of the result."""
        return digest(self.configuration())

    @property
    def datasets(self) -> tuple[DatasetSpec, ...]:
        """What has to be there before it can be done."""
        source, target = self.uses_source or self.align, self.uses_target or self.align
        return (*(self.sources if source else ()), *((self.target,) if target else ()))

    @property
    def episodes(self) -> int:
        """Of all evaluations."""
        return sum(one.episodes for one in self.evaluations)

    def train_config(
        self, data: Path, *, ratio: float | None = None, device: str = "auto", threads: int | None = 1
    ) -> TrainConfig:
        """The run's configuration, with the demonstrations in the folder ``data``.

        ``ratio``: the share of the source where another cell decides it.
        """
        from beacon.methods import METHODS

        if self.method not in METHODS:
            raise UserError(f"there is no method '{self.method}'; choose one of {', '.join(METHODS)}")
        policy, optimization = preset_config(self.preset)
        overrides = dict(self.options)
        if self.match is not None:
            if ratio is None:
                raise ValueError("the share of the source is that of another cell; say ratio")
            overrides["ratio"] = ratio
        source = tuple(data / one.file_name for one in self.sources) if self.uses_source else ()
        return TrainConfig(
            method=self.method,
            options=changed(METHODS[self.method].default_options(), overrides),
            preset="paper" if self.preset == "paper" else "cpu",
            data=DataOptions(
                source=source,
                target=data / self.target.file_name if self.uses_target else None,
                target_demos=self.target_demos if self.uses_target else None,
                image_size=self.image_size,
            ),
            policy=changed(policy, self.policy),
            optimization=replace(changed(optimization, self.optimization), seed=self.seed),
            run=RunOptions(device=device, threads=threads, tensorboard=False, keep=1),
        )

    def steps(self) -> int:
        """Gradient steps of the run."""
        _, optimization = preset_config(self.preset)
        return int(self.optimization.get("steps", optimization.steps))


def _both(cell: Cell) -> dict[str, Any]:
    """Source and target of a cell, whether its method reads them or not."""
    return {
        "sources": [_plain(source) for source in cell.sources],
        "target": _plain(cell.target),
        "target_demos": cell.target_demos,
    }


def _plain(spec: DatasetSpec | EvaluationSpec) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(spec)))
    return plain
