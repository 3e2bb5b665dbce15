"""Cells of seconds: real training on small real demonstrations, without rollouts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demonstrations import make_dataset

from beacon.processes import Processes
from beacon.suites.experiment import DatasetSpec, Experiment
from beacon.suites.results import Folders
from beacon.suites.runner import run_experiments

SOURCE = DatasetSpec("stack", "source", 4)
TARGET = DatasetSpec("stack", "texture", 3, seed=101)
POLICY: Mapping[str, Any] = {
    "horizon": 8,
    "action_steps": 4,
    "encoder": {"widths": [8, 8, 8, 8], "keypoints": 4, "group_channels": 8},
    "denoiser": "mlp",
    "mlp_width": 16,
    "mlp_blocks": 1,
    "draws": 1,
}


def small_experiment(method: str = "cotrain", steps: int = 4, **changes: Any) -> Experiment:
    """A experiment of a few gradient steps."""
    values: dict[str, Any] = {
        "method": method,
        "sources": (SOURCE,),
        "target": TARGET,
        "target_demos": 2,
        "evaluations": (),
        "optimization": {"steps": steps, "steps_per_epoch": 2, "batch_size": 8, "warmup_steps": 1},
        "policy": POLICY,
    }
    return Experiment(**{**values, **changes})


def with_data(folder: Path) -> Folders:
    """Folders in which the demonstrations are there already."""
    folders = Folders(folder / "work", folder / "results")
    make_dataset(folders.data / SOURCE.file_name, 4)
    make_dataset(folders.data / TARGET.file_name, 3, seed=1, background=(120, 80, 20))
    return folders


def contested() -> list[Experiment]:
    """The cells that several processes compete for."""
    first = small_experiment("beacon", 12)
    return [first, *(small_experiment("cotrain", 12, seed=seed) for seed in range(2)), matched(first)]


def matched(experiment: Experiment) -> Experiment:
    """The control of a experiment."""
    return small_experiment("cotrain", experiment.steps(), match=experiment)


def compete(folder: Path) -> None:
    """Do all of them, and say which were done here."""
    with Processes(1) as processes:
        outcome = run_experiments(
            contested(),
            Folders(folder / "work", folder / "results"),
            processes,
            notify=lambda notice: print(notice.kind, notice.experiment.key, flush=True),
        )
    assert not outcome.failed, outcome.failed


if __name__ == "__main__":
    compete(Path(sys.argv[1]))
