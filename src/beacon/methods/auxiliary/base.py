"""The contract of an auxiliary loss: a scalar that any method may add to the policy's loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import State
from beacon.plain import Part
from beacon.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.methods.base import MethodContext
    from beacon.policy import Encoding

AUXILIARY_LOSSES: Registry[type[AuxiliaryLoss]] = Registry(
    "auxiliary loss", "beacon.auxiliary_losses", home="beacon.methods.auxiliary"
)


class BuiltAuxiliaryLoss:
    """An auxiliary loss of one run."""

    def loss(self, batch: WindowBatch, encoding: Encoding) -> Tensor:
        """The scalar that is added to the loss of a mini-batch, its strength included.

        Args:
            batch: the windows.
            encoding: what the encoder makes of them; differentiable.
        """
        raise NotImplementedError

    def state_dict(self) -> State:
        """Everything that changes, as arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        if state:
            raise UserError("the checkpoint has an auxiliary loss that this run does not have")


class AuxiliaryLoss(Part, registry=AUXILIARY_LOSSES):
    """Options of an auxiliary loss, a part of the training configuration. Subclasses are frozen dataclasses.

    A new one is one file: a frozen dataclass that inherits this class, answers ``build`` and is registered
    by ``@AUXILIARY_LOSSES.register("my-loss")``, or by an entry point of the group
    ``beacon.auxiliary_losses``.
    """

    def build(self, context: MethodContext) -> BuiltAuxiliaryLoss | None:
        """The loss of one run; None where these data give it nothing to work with."""
        raise NotImplementedError
