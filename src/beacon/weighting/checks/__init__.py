"""Checks of demonstrations: factors of at least one on their discrepancies. One file a check; `CHECKS` by
name.
"""

from __future__ import annotations

from beacon.weighting.checks.base import CHECKS, BuiltCheck, Check
from beacon.weighting.checks.inverse_dynamics import InverseDynamicsCheck
from beacon.weighting.checks.neighbor_actions import NeighborActionCheck

__all__ = ["CHECKS", "BuiltCheck", "Check", "InverseDynamicsCheck", "NeighborActionCheck"]
