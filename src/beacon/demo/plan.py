"""What the demo does: sizes that give a meaningful comparison in minutes on two cores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from beacon.data.corruption import DELAYED, MIRRORED
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.methods import METHODS
from beacon.policy.config import PolicyConfig
from beacon.training.config import DataOptions, RunOptions, TrainConfig, preset_config

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
    faults: tuple[tuple[str, float], ...] = ((DELAYED, 0.2), (MIRRORED, 0.2))  # shares of the source
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
            faults=((DELAYED, 0.34), (MIRRORED, 0.17)),
            target_demos=2,
            image_size=32,
            steps=20,
            steps_per_epoch=5,
            episodes=3,
            videos=0,
            seed=seed,
            tiny_policy=True,
        )

    def train_config(self, method: str, data: Path) -> TrainConfig:
        """The run of one method; all have the same policy, budget and target data."""
        policy, optimization = preset_config("cpu")
        policy = _tiny(policy) if self.tiny_policy else policy
        source = () if method == "target-only" else (data / "source.hdf5",)
        return TrainConfig(
            method=method,
            options=METHODS[method].Options(),
            data=DataOptions(source=source, target=data / "target.hdf5", image_size=self.image_size),
            policy=policy,
            optimization=replace(
                optimization, steps=self.steps, steps_per_epoch=self.steps_per_epoch, seed=self.seed
            ),
            run=RunOptions(device="cpu", threads=1, tensorboard=False, checkpoint_every=1),
        )

    def keep(self, folder: Path) -> None:
        """Note the plan in the folder, or refuse a folder in which another demo was begun."""
        file = folder / PLAN
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not file.exists():
            write_bytes(file, (json.dumps(plain, indent=2) + "\n").encode())
            return
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError):
            found = None
        if found != plain:
            raise UserError(f"{folder} holds a demo with other settings; delete it, or choose another --out")


def _tiny(policy: PolicyConfig) -> PolicyConfig:
    encoder = replace(policy.encoder, widths=(8, 8, 8, 8), group_channels=8, keypoints=8)
    return replace(policy, encoder=encoder, denoiser="mlp", mlp_width=32, mlp_blocks=1, draws=2)
