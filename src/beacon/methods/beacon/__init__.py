"""BEACON: a weight for every window, learned beside the policy. `method.py` wires the parts."""

from __future__ import annotations

from beacon.methods.beacon.method import Beacon, PaperBeacon
from beacon.methods.beacon.options import PAPER, RECOMMENDED, BeaconOptions

__all__ = ["PAPER", "RECOMMENDED", "Beacon", "BeaconOptions", "PaperBeacon"]
