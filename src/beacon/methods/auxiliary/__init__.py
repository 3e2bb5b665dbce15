"""Auxiliary losses: one file a loss; `AUXILIARY_LOSSES` knows them by name."""

from __future__ import annotations

from beacon.methods.auxiliary.adversarial import Adversarial
from beacon.methods.auxiliary.base import AUXILIARY_LOSSES, AuxiliaryLoss, BuiltAuxiliaryLoss
from beacon.methods.auxiliary.feature_distance import FeatureDistance
from beacon.methods.auxiliary.future_state import FutureState

__all__ = [
    "AUXILIARY_LOSSES",
    "Adversarial",
    "AuxiliaryLoss",
    "BuiltAuxiliaryLoss",
    "FeatureDistance",
    "FutureState",
]
