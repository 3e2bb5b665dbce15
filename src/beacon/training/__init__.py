"""The one trainer: loop, checkpoints, resume, logging. It knows no method by name."""

from beacon.training.config import DataOptions, OptimizationOptions, RunOptions, TrainConfig, preset_config
from beacon.training.trainer import Trainer, train

__all__ = [
    "DataOptions",
    "OptimizationOptions",
    "RunOptions",
    "TrainConfig",
    "Trainer",
    "preset_config",
    "train",
]
