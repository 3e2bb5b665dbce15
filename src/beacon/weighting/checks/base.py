"""The contract of a check: does what a demonstration says fit what it shows?

A check multiplies the discrepancies of source samples by factors of at least one. Several are multiplied in
the order in which they are given.
"""

from __future__ import annotations

from typing import Any, ClassVar

from beacon.plain import Part
from beacon.registry import Registry
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Vector

CHECKS: Registry[type[Check]] = Registry("check", "beacon.checks", home="beacon.weighting.checks")


class BuiltCheck:
    """A check of one run.

    Args:
        prior: (m,) factors that the data alone give, before anything is learned; None where only the learned
            embeddings can tell. A run of the minimiser starts from the product of all priors.
        shards: can do with the rows of its own process; see `RefreshInputs`.
    """

    prior: Vector | None = None
    shards: ClassVar[bool] = False

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """Factors of at least one, (m,), one per source sample."""
        raise NotImplementedError


class Check(Part, registry=CHECKS):
    """Options of a check. Subclasses are frozen dataclasses.

    A new one is one file: a frozen dataclass that inherits this class, answers ``build`` and is registered by
    ``@CHECKS.register("my-check")`` or by an entry point of the group ``beacon.checks``.
    """

    needs: ClassVar[frozenset[str]] = frozenset()  # of "embeddings", "actions", "episodes"

    def build(self, context: Any) -> BuiltCheck | None:
        """The check of one run; None where these data cannot tell.

        Args:
            context: a `beacon.data.context.DataContext`; None in a training loop of one's own.
        """
        raise NotImplementedError
