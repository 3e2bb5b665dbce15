"""Solvers: how a refresh finds the weights. One file a solver; `SOLVERS` knows them by name."""

from __future__ import annotations

from beacon.weighting.solvers.base import SOLVERS, Solver
from beacon.weighting.solvers.minimiser import Minimiser
from beacon.weighting.solvers.steps import Steps

__all__ = ["SOLVERS", "Minimiser", "Solver", "Steps"]
