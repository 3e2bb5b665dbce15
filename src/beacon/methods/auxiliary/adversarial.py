"""Adversarial alignment of image features, in the manner of ADDA (Tzeng et al. 2017).

A discriminator learns to tell features of the source from features of the target, with an optimiser of its
own; the encoder is trained so that features of the target are taken for the source's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.auxiliary.base import AUXILIARY_LOSSES, AuxiliaryLoss, BuiltAuxiliaryLoss
from beacon.methods.base import State
from beacon.methods.option_checks import require_at_least, require_positive

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from beacon.data import WindowBatch
    from beacon.methods.base import MethodContext
    from beacon.policy import Encoding

PARAMETERS, FIRST, SECOND, STEP = "parameter", "first_moment", "second_moment", "step"  # in a checkpoint
DISCRIMINATOR = 7  # stream of randomness


@AUXILIARY_LOSSES.register("adversarial")
@dataclass(frozen=True)
class Adversarial(AuxiliaryLoss):
    """Keep a discriminator from telling the image features of the target from the source's.

    A mini-batch without windows of either side adds nothing.
    """

    # Strength of the encoder's part; CFG-ADDA studies 0.05 and 0.5.
    strength: float = 0.05
    # Hidden units of the discriminator, in each of two layers; ours.
    hidden: int = 256
    # Learning rate of the discriminator (Adam); ours.
    learning_rate: float = 1e-4

    def __post_init__(self) -> None:
        require_at_least(0, strength=self.strength)
        require_at_least(1, hidden=self.hidden)
        require_positive(learning_rate=self.learning_rate)

    def build(self, context: MethodContext) -> AdversarialLoss | None:
        """None where it has no strength, there is no target, or there are no cameras."""
        if not self.strength or not len(context.target_windows) or not context.windows.sets[0].images:
            return None
        return AdversarialLoss(self, context.target, context.seed)


class AdversarialLoss(BuiltAuxiliaryLoss):
    """The discriminator, its optimiser, and what it says of a mini-batch."""

    def __init__(self, options: Adversarial, target: int, seed: int) -> None:
        self._options, self._target, self._seed = options, target, seed
        # Made when the number of features is known.
        self.discriminator: nn.Module | None = None
        self._optimizer: torch.optim.Adam | None = None

    def loss(self, batch: WindowBatch, encoding: Encoding) -> Tensor:
        """Let the discriminator take a step, then strength × the surprise at target features as source's."""
        import torch.nn.functional as F

        features = encoding.vision.float()
        on_target, on_source = batch.rows(self._target)
        if not len(on_target) or not len(on_source):
            return features.sum() * 0.0
        discriminator, optimizer = self._networks(features.shape[1], features.device)
        told = discriminator(features.detach()).squeeze(1)  # above 0: the target's
        optimizer.zero_grad(set_to_none=True)
        halves = (
            F.softplus(-told[on_target]).mean(),  # −log of the probability of the truth
            F.softplus(told[on_source]).mean(),
        )
        (0.5 * (halves[0] + halves[1])).backward()
        optimizer.step()
        discriminator.requires_grad_(False)  # the next backward pass is the encoder's
        fooled = F.softplus(discriminator(features[on_target]).squeeze(1)).mean()
        discriminator.requires_grad_(True)
        return self._options.strength * fooled

    def _networks(self, inputs: int, device: Any) -> tuple[nn.Module, torch.optim.Adam]:
        if self.discriminator is None or self._optimizer is None:
            import torch

            from beacon.methods.networks import make_mlp

            sizes = (inputs, self._options.hidden, self._options.hidden, 1)
            self.discriminator = make_mlp(sizes, self._seed, DISCRIMINATOR)
            rate = self._options.learning_rate
            self._optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=rate)
        self.discriminator.to(device)
        for moments in self._optimizer.state.values():
            moments |= {name: moments[name].to(device) for name in ("exp_avg", "exp_avg_sq")}
        return self.discriminator, self._optimizer

    def state_dict(self) -> State:
        """Parameters and moments, as arrays; nothing before the first gradient step."""
        if self.discriminator is None or self._optimizer is None:
            return {}
        state: State = {}
        for number, parameter in enumerate(self.discriminator.parameters()):
            moments = self._optimizer.state[parameter]
            state[f"{PARAMETERS}-{number}"] = parameter.detach().cpu().numpy().copy()
            state[f"{FIRST}-{number}"] = moments["exp_avg"].cpu().numpy().copy()
            state[f"{SECOND}-{number}"] = moments["exp_avg_sq"].cpu().numpy().copy()
            state[STEP] = np.array(float(moments["step"]))
        return state

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        import torch

        if not state:
            return
        try:
            inputs = np.shape(state[f"{PARAMETERS}-0"])[1]
            discriminator, optimizer = self._networks(int(inputs), "cpu")
            for number, parameter in enumerate(discriminator.parameters()):
                values = [
                    torch.from_numpy(np.array(state[f"{part}-{number}"], np.float32))
                    for part in (PARAMETERS, FIRST, SECOND)
                ]
                if any(value.shape != parameter.shape for value in values):
                    raise UserError("the checkpoint belongs to another discriminator: its size differs")
                parameter.data.copy_(values[0])
                step = torch.tensor(float(state[STEP]), dtype=torch.float32)
                moments = {"step": step, "exp_avg": values[1], "exp_avg_sq": values[2]}
                optimizer.state[parameter] = moments
        except (KeyError, IndexError) as error:
            raise UserError(f"the checkpoint belongs to another run: adversarial has no {error}") from None
