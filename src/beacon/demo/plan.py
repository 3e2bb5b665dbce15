"""What the demo does: sizes that give a meaningful comparison in minutes on two cores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beacon.data.corruption import DELAYED, MIRRORED
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.methods import METHODS
from beacon.plain import to_plain
from beacon.suites.experiment import DatasetSpec, EvaluationSpec, Experiment
from beacon.suites.presets import TINY_POLICY
from beacon.suites.results import Folders
from beacon.training.config import TrainConfig

PLAN = "demo.json"
# Longest first, so that two workers end at about the same time.
ORDER = ("beacon", "cotrain", "target-only")
SHOWN = ("target-only", "cotrain", "beacon")  # baselines first


@dataclass(frozen=True)
class DemoPlan:
    """Everything that decides the demo's result."""

    task: str = "stack"
    size: str = "small"
    source_domain: str = "source"
    target_domain: str = "texture"  # another table: what the policy has to work on
    source_demos: int = 150
    target_demos: int = 10
    corruptions: tuple[tuple[str, float], ...] = ((DELAYED, 0.2), (MIRRORED, 0.2))  # shares of the source
    image_size: int | None = 64  # half of the time of the pictures that the simulation draws
    steps: int = 1500
    steps_per_epoch: int = 150
    episodes: int = 100
    videos: int = 2  # successes and failures of each run to film
    seed: int = 0
    tiny_policy: bool = False

    @classmethod
    def quick(cls, seed: int = 0) -> DemoPlan:
        """The same story in about a minute: it shows that everything works, and teaches nothing."""
        return cls(
            source_demos=6,
            corruptions=((DELAYED, 0.34), (MIRRORED, 0.17)),
            target_demos=2,
            image_size=32,
            steps=20,
            steps_per_epoch=5,
            episodes=3,
            videos=0,
            seed=seed,
            tiny_policy=True,
        )

    def experiment(self, method: str) -> Experiment:
        """The run of one method; all have the same policy, budget and target data."""
        # Seeds apart: no target demonstration starts where a source demonstration does.
        source = DatasetSpec(
            self.task,
            self.source_domain,
            self.source_demos,
            self.size,
            seed=2 * self.seed + 2,
            corruptions=self.corruptions,
            corruption_seed=self.seed,
            label="source",
        )
        target = DatasetSpec(
            self.task,
            self.target_domain,
            self.target_demos,
            self.size,
            seed=2 * self.seed + 1,
            label="target",
        )
        return Experiment(
            method=method,
            sources=(source,),
            target=target,
            target_demos=self.target_demos,
            evaluations=(EvaluationSpec(self.target_domain, episodes=self.episodes),),
            seed=self.seed,
            auxiliary=tuple(to_plain(loss) for loss in METHODS[method].default_auxiliary()),
            optimization={"steps": self.steps, "steps_per_epoch": self.steps_per_epoch},
            policy=TINY_POLICY if self.tiny_policy else {},
            image_size=self.image_size,
        )

    def train_config(self, method: str, data: Path) -> TrainConfig:
        """The configuration of one method's run, with the demonstrations in the folder ``data``."""
        return self.experiment(method).train_config(data, device="cpu")

    def keep(self, folder: Path) -> None:
        """Note the plan in the folder, or refuse a folder in which another demo was begun."""
        file = folder / PLAN
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not file.exists():
            write_bytes(file, (json.dumps(plain, indent=2) + "\n").encode())
            return
        try:
            noted = json.loads(file.read_text())
        except (OSError, ValueError):
            noted = None
        if noted != plain:
            raise UserError(f"{folder} holds a demo with other settings; delete it, or choose another --out")


@dataclass(frozen=True)
class DemoFolders(Folders):
    """A suite's folders for people to look into: runs have the names of their methods."""

    def run(self, experiment: Experiment) -> Path:
        """The run folder."""
        return self.work / experiment.method

    def resolved(self) -> DemoFolders:
        """As the user wrote them: so paths in configurations are right where the demo was started."""
        return self

    @contextmanager
    def entered(self) -> Iterator[DemoFolders]:
        """Stay where the demo was started."""
        yield self
