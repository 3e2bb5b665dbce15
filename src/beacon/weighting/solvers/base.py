"""The contract of a solver: a problem in, weights out."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from beacon.plain import Part
from beacon.registry import Registry

if TYPE_CHECKING:
    from beacon.weighting.problem import WeightProblem, Weights

SOLVERS: Registry[type[Solver]] = Registry("solver", "beacon.solvers", home="beacon.weighting.solvers")


class Solver(Part, registry=SOLVERS):
    """How the weights of a refresh are found. Subclasses are frozen dataclasses; their fields are options."""

    # Whether the weights are the minimiser itself, whatever they were before. Then a run may start from
    # weights that the data alone give.
    is_exact: ClassVar[bool] = False
    # Whether several processes can each solve the problem of a shard of the samples, of one source domain.
    shards: ClassVar[bool] = False

    @abstractmethod
    def solve(self, problem: WeightProblem, now: Weights, refresh: int, planned: int) -> Weights:
        """New weights.

        Args:
            problem: of this refresh.
            now: the present weights; not changed.
            refresh: number of the refresh, from 0.
            planned: how many refreshes there will be in the run.
        """

    def largest_source_weight(self, q_max: float, domains: int) -> float:
        """The largest weight that every source sample can have at the first refresh."""
        return q_max

    def require(self, lambda_2: float) -> None:
        """Refuse, by a ValueError, strengths with which there is no solution."""
        return
