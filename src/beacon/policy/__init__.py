"""The diffusion policy: encoder, denoiser, noise schedule, per-sample loss, sampling.

Loads on first use, so that a command line can read ``PolicyConfig`` without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.policy.checkpoint import find_checkpoint, load_policy, save_policy
    from beacon.policy.config import DomainLabel, EncoderConfig, ObservationSpec, PolicyConfig
    from beacon.policy.diffusion import DiffusionPolicy
    from beacon.policy.ema import ModelEma
    from beacon.policy.encoder import Encoding
    from beacon.policy.flat import FlatParameters
    from beacon.policy.presets import PRESETS
    from beacon.policy.resnet import load_resnet_weights
    from beacon.policy.trained import TrainedPolicy

__all__ = [
    "PRESETS",
    "DiffusionPolicy",
    "DomainLabel",
    "EncoderConfig",
    "Encoding",
    "FlatParameters",
    "ModelEma",
    "ObservationSpec",
    "PolicyConfig",
    "TrainedPolicy",
    "find_checkpoint",
    "load_policy",
    "load_resnet_weights",
    "save_policy",
]

_HOMES = {
    "PRESETS": "presets",
    "DiffusionPolicy": "diffusion",
    "DomainLabel": "config",
    "EncoderConfig": "config",
    "Encoding": "encoder",
    "FlatParameters": "flat",
    "ModelEma": "ema",
    "ObservationSpec": "config",
    "PolicyConfig": "config",
    "TrainedPolicy": "trained",
    "find_checkpoint": "checkpoint",
    "load_policy": "checkpoint",
    "load_resnet_weights": "resnet",
    "save_policy": "checkpoint",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.policy.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.policy' has no attribute {name!r}")
