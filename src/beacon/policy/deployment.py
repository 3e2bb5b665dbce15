"""What a robot's program must know besides shapes: names in the data, control rate, names of actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from beacon.data.formats.base import Fit
from beacon.errors import UserError
from beacon.plain import OMIT_DEFAULT


@dataclass(frozen=True)
class DeploymentInfo:
    """Facts of the training data that a policy carries with it."""

    # Name in the data -> name in the policy, as --rename of training said; observations may use either.
    rename: Mapping[str, str] = field(default_factory=dict)
    # Actions per second of the demonstrations; None: the data do not say.
    control_rate: float | None = None
    # A name for every value of an action; empty: the data do not say.
    action_names: tuple[str, ...] = ()
    # How a picture of another shape gets the policy's, as the card of the target said.
    image_fit: Fit = field(default="stretch", metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if self.control_rate is not None and not (self.control_rate > 0 and math.isfinite(self.control_rate)):
            raise UserError(f"control_rate: a positive number expected, not {self.control_rate}")

    def data_names(self, name: str) -> list[str]:
        """The names under which an observation may come: the policy's own and those of the data."""
        return [name, *sorted(key for key, renamed in self.rename.items() if renamed == name and key != name)]
