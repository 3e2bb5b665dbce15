"""What each method does with source data: one small file a method, one contract for all.

A method answers four questions and holds its own state: how mini-batches are drawn, what each sample
weighs, what is added to the loss, what happens between epochs. Policy, encoder, optimiser, schedule,
number of gradient steps and target data are the same for all.
"""

from beacon.methods.base import EpochReport, Measurements, Method, MethodContext
from beacon.methods.beacon import Beacon, BeaconOptions
from beacon.methods.cotrain import CoTraining, CoTrainingOptions
from beacon.methods.single import NoOptions, SourceOnly, TargetOnly

METHODS: dict[str, type[Method]] = {
    "target-only": TargetOnly,
    "source-only": SourceOnly,
    "cotrain": CoTraining,
    "beacon": Beacon,
}

__all__ = [
    "METHODS",
    "Beacon",
    "BeaconOptions",
    "CoTraining",
    "CoTrainingOptions",
    "EpochReport",
    "Measurements",
    "Method",
    "MethodContext",
    "NoOptions",
    "SourceOnly",
    "TargetOnly",
]
