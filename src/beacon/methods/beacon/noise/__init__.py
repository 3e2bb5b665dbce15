"""Weights that depend on the noise level: one file a way; `NOISE_LEVELS` by name."""

from __future__ import annotations

from beacon.methods.beacon.noise.base import NOISE_LEVELS, AllAlike, BuiltNoiseLevels, NoiseLevels
from beacon.methods.beacon.noise.by_audit import ByAudit
from beacon.methods.beacon.noise.by_domain import ByDomain
from beacon.methods.beacon.noise.by_loss import ByLoss

__all__ = ["NOISE_LEVELS", "AllAlike", "BuiltNoiseLevels", "ByAudit", "ByDomain", "ByLoss", "NoiseLevels"]
