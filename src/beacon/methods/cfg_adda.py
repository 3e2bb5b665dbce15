"""Features that are aligned adversarially, and the domain as a condition that guides, as in CFG-ADDA.

A discriminator keeps image features of both domains together (`beacon.methods.auxiliary.adversarial`), and
the policy knows by a label which domain a sample is of, so that actions may differ where features do not. The
label is left out at random in training; when acting, the prediction is (arXiv 2604.13645, after Ho and
Salimans 2022)

    without label + s · (with the target's label − without label).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.auxiliary.adversarial import Adversarial
from beacon.methods.balanced import BalancedCoTraining, check_cameras, check_ratio, check_share
from beacon.methods.base import MethodContext, State, join_states, split_states
from beacon.methods.option_checks import refusal, require_at_least

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.policy import Encoding, ObservationSpec


@dataclass(frozen=True)
class CfgAddaOptions:
    """Options of CFG-ADDA; what its page does not say is ours."""

    # Share of the source in what is cloned; paper: the target's share is 0.016, 0.1 or 0.3.
    ratio: float = 0.9
    # Strength of the adversarial loss; paper: 0.05 or 0.5.
    strength: float = 0.05
    # Share of the training samples whose label is left out; ours.
    label_dropout: float = 0.1
    # Guidance s when acting: 1 is the target's label alone; ours, try 1 and 2.
    guidance: float = 2.0
    # Hidden units of the discriminator, in each of two layers, and its learning rate (Adam); ours.
    hidden: int = 256
    discriminator_rate: float = 1e-4
    # Share of target windows in a mini-batch, so that there are enough to tell apart; ours. What is cloned
    # stays as --ratio says: losses are weighted accordingly.
    target_share: float = 0.25

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        check_share(self.target_share)
        if not 0 <= self.label_dropout < 1:
            raise refusal("label_dropout", self.label_dropout, "at least 0 and below 1")
        if not self.label_dropout and self.guidance != 1:
            raise UserError("--label-dropout 0: guidance compares with no label; say --guidance 1, too")
        require_at_least(0, guidance=self.guidance)
        if not self.discriminator_rate > 0:
            raise refusal("discriminator_rate", self.discriminator_rate, "above 0")
        self.adversarial  # noqa: B018  refuses what cannot be a discriminator

    @property
    def adversarial(self) -> Adversarial:
        """The alignment of features."""
        return Adversarial(self.strength, self.hidden, self.discriminator_rate)


class CfgAdda(BalancedCoTraining):
    """Clone source and target with features that are aligned and a label that says which is which."""

    Options = CfgAddaOptions

    def __init__(self, options: CfgAddaOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        check_cameras(context, "cfg-adda")
        self._adversarial = options.adversarial.build(context)  # None without strength

    @classmethod
    def observation(cls, options: CfgAddaOptions, spec: ObservationSpec) -> ObservationSpec:
        """The policy is told the domain, too."""
        from beacon.policy import DomainLabel

        return replace(spec, domain_label=DomainLabel(options.label_dropout, options.guidance))

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """What the discriminator makes of target features."""
        return None if self._adversarial is None else self._adversarial.loss(batch, encoding)

    def state_dict(self) -> State:
        """The discriminator and its optimiser."""
        return {} if self._adversarial is None else join_states({"adversarial": self._adversarial})

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        split_states({} if self._adversarial is None else {"adversarial": self._adversarial}, state)
