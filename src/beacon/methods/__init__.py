"""What each method does with source data: one small file a method, one contract for all.

A method answers five questions and holds its own state: how mini-batches are drawn, what each sample weighs,
and at which noise levels, what is added to the loss, what happens between epochs. Policy, encoder,
optimiser, schedule, number of gradient steps and target data are the same for all.

Nothing here waits for torch, so that a command line knows the methods and their options at once.
"""

from __future__ import annotations

from beacon.methods.ambient import Ambient, AmbientOptions
from beacon.methods.auxiliary import AUXILIARY_LOSSES, AuxiliaryLoss
from beacon.methods.base import EpochReport, Measurements, Method, MethodContext, ReferencePolicy
from beacon.methods.beacon import PAPER, RECOMMENDED, Beacon, BeaconOptions, PaperBeacon
from beacon.methods.cfg_adda import CfgAdda, CfgAddaOptions
from beacon.methods.cotrain import CoTraining, CoTrainingOptions
from beacon.methods.deminf import DemInf, DemInfOptions
from beacon.methods.iwr import Iwr, IwrOptions
from beacon.methods.mmd import Mmd, MmdOptions
from beacon.methods.qoq import Qoq, QoqOptions
from beacon.methods.registry import METHODS, register
from beacon.methods.remix import Remix, RemixOptions
from beacon.methods.single import NoOptions, SourceOnly, TargetOnly
from beacon.methods.uot import Uot, UotOptions

register("target-only")(TargetOnly)
register("source-only")(SourceOnly)
register("cotrain")(CoTraining)
register("mmd")(Mmd)
register("uot")(Uot)
register("beacon")(Beacon)
register("beacon-paper")(PaperBeacon)
register("remix")(Remix)
register("ambient")(Ambient)
register("deminf")(DemInf)
register("iwr")(Iwr)
register("qoq")(Qoq)
register("cfg-adda")(CfgAdda)

DEFAULT_METHOD = "beacon"  # of the command line

__all__ = [
    "AUXILIARY_LOSSES",
    "DEFAULT_METHOD",
    "METHODS",
    "PAPER",
    "RECOMMENDED",
    "Ambient",
    "AmbientOptions",
    "AuxiliaryLoss",
    "Beacon",
    "BeaconOptions",
    "CfgAdda",
    "CfgAddaOptions",
    "CoTraining",
    "CoTrainingOptions",
    "DemInf",
    "DemInfOptions",
    "EpochReport",
    "Iwr",
    "IwrOptions",
    "Measurements",
    "Method",
    "MethodContext",
    "Mmd",
    "MmdOptions",
    "NoOptions",
    "PaperBeacon",
    "Qoq",
    "QoqOptions",
    "ReferencePolicy",
    "Remix",
    "RemixOptions",
    "SourceOnly",
    "TargetOnly",
    "Uot",
    "UotOptions",
    "register",
]
