"""The one trainer: loop, checkpoints, resume, logging. It knows no method by name.

Loads on first use, so that a command line can read the configuration without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.training.config import (
        DataOptions,
        OptimizationOptions,
        RunOptions,
        TrainConfig,
        preset_config,
    )
    from beacon.training.run import train
    from beacon.training.trainer import Trainer

__all__ = [
    "DataOptions",
    "OptimizationOptions",
    "RunOptions",
    "TrainConfig",
    "Trainer",
    "preset_config",
    "train",
]

_HOMES = {
    "DataOptions": "config",
    "OptimizationOptions": "config",
    "RunOptions": "config",
    "TrainConfig": "config",
    "Trainer": "trainer",
    "preset_config": "config",
    "train": "run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.training.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.training' has no attribute {name!r}")
