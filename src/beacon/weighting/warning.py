"""What a user of the weights is told, once each, where it would otherwise pass in silence."""

from __future__ import annotations

import warnings

from beacon.weighting.validation import Vector

# An untrained diffusion policy has a mean loss of about one; beyond this, losses are of another kind.
LARGEST_MEAN_LOSS = 2.0


class WeightingWarning(UserWarning):
    """The weights may not be what the user expects; the message says why."""


class RefreshWarnings:
    """Looks at every refresh, and says of each thing once that it looks wrong."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def look(self, losses: Vector, on_target: Vector, floor: float, number: int, planned: int) -> None:
        """Warn of what looks wrong.

        Args:
            losses: that the refresh has seen.
            on_target: the new weights of the target samples.
            floor: the smallest weight that those may have.
            number: of the refresh.
            planned: refreshes.
        """
        if float(losses.mean()) > LARGEST_MEAN_LOSS:
            self._say(
                "losses",
                f"the mean loss is {losses.mean():.3g}; beyond about 1, losses outweigh discrepancies "
                "and weights follow noise: divide them (loss_scale=...), or give a bounded loss",
            )
        if number > planned:
            self._say(
                "refreshes",
                f"there were {planned} planned_refreshes and this is number {number}; "
                "weights travel farther than planned",
            )
        if float(on_target.max()) <= floor * (1 + 1e-9):
            self._say(
                "target",
                f"all target samples are at their smallest weight, {floor:g}: the source is cheaper than the "
                "target; look at losses and discrepancies by domain",
            )

    def _say(self, topic: str, message: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            warnings.warn(message, WeightingWarning, stacklevel=4)
