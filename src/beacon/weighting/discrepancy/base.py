"""The contract of a discrepancy estimator: how far each source sample is from the target domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from beacon.plain import Part
from beacon.registry import Registry
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Vector

Estimator = Callable[[RefreshInputs], "PerSample | Vector"]

DISCREPANCIES: Registry[type[Discrepancy]] = Registry(
    "discrepancy", "beacon.discrepancies", home="beacon.weighting.discrepancy"
)


class Discrepancy(Part, registry=DISCREPANCIES):
    """An estimator of one non-negative number per source sample. Subclasses are frozen dataclasses.

    A new one is one file: a frozen dataclass that inherits this class, answers ``__call__`` and is
    registered by ``@DISCREPANCIES.register("my-discrepancy")``, or by an entry point of the group
    ``beacon.discrepancies``.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})  # of "embeddings", "actions", "episodes"
    once: ClassVar[bool] = False  # asked once; the Reweighter keeps and saves the answer
    shards: ClassVar[bool] = False  # can do with the rows of its own process; see `RefreshInputs`
    default_strength: ClassVar[float] = 0.1  # λ_d where none is given

    def build(self, context: Any) -> Estimator:
        """What is asked at every refresh.

        Args:
            context: of the run, a `beacon.methods.MethodContext`; None in a training loop of one's own.
        """
        return self

    def __call__(self, inputs: RefreshInputs) -> PerSample | Vector:
        """The discrepancy of every source sample, (m,)."""
        raise NotImplementedError(f"{type(self).__name__} has to be built with the context of a run")


def ratio(distances: Vector, norm: Vector | float, cap: float) -> Vector:
    """``distances / norm``, at most ``cap``; zero over zero is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.divide(distances, norm)
    quotient[~(distances > 0)] = 0.0
    return np.minimum(quotient, cap, out=quotient)
