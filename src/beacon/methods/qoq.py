"""Source demonstrations by their influence on the loss of target windows, as in Quality over Quantity.

A gradient step on a source window z changes the loss of a target window v by −η⟨∇ℓ(v), ∇ℓ(z)⟩. A source
window scores the maximum over v of the product, a demonstration the mean over its windows, and the best share
is co-trained with the target (QoQ, arXiv 2603.09056). Gradients are those of the denoiser's last layers, with
the same noise for all windows, in a random projection that keeps products (Charikar et al. 2002).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext, ReferencePolicy
from beacon.methods.option_checks import refusal, require_at_least
from beacon.methods.selection import SelectedCoTraining, Vector, check_selection

if TYPE_CHECKING:
    from torch import Tensor, nn

    from beacon.policy import DiffusionPolicy

REFERENCE = "all-data"  # its name in the run folder, with its number of steps
PROJECTION, NOISE = 0, 1  # streams of randomness
WINDOWS = 64  # whose gradients are computed at a time


@dataclass(frozen=True)
class QoqOptions:
    """Options of QoQ. Its own numbers were not at hand; those of CUPID (arXiv 2506.19121) are named."""

    # Share of the source demonstrations that is kept; paper: the top k.
    keep_share: float = 0.5
    # Share of the source in a mini-batch; ours, as co-training.
    ratio: float = 0.9
    # Whose gradients: of a policy that is trained on all data before the run ("reference"), or of the run's
    # own at an epoch of it, which draws from all of the source until then ("present").
    gradients_of: Literal["reference", "present"] = "reference"
    # Gradient steps of the reference, or when the run's own policy is asked, as a share of the run; ours.
    share: float = 0.25
    # The largest product over the target windows (paper), or their mean, which is plain influence.
    over_target: Literal["max", "mean"] = "max"
    # Noise draws per window, spread over the diffusion steps; CUPID: 64.
    draws: int = 16
    # Values that a gradient is projected to; CUPID: 4000. Shorter gradients stay as they are.
    projection: int = 4000

    def __post_init__(self) -> None:
        check_selection(self.keep_share, self.ratio)
        if not 0 < self.share <= 1 or (self.gradients_of == "present" and self.share == 1):
            raise refusal("share", self.share, "above 0 and at most 1, below 1 with --gradients-of present")
        require_at_least(1, draws=self.draws, projection=self.projection)

    def asked_before(self, epochs: int) -> int:
        """The epoch before which the source is scored."""
        return 0 if self.gradients_of == "reference" else max(1, round(self.share * epochs))


class Qoq(SelectedCoTraining):
    """Keep the source demonstrations that lower the loss of target windows most."""

    Options = QoqOptions

    @classmethod
    def check(cls, options: QoqOptions, *, epochs: int) -> None:
        """The run must go on after the source was scored."""
        if options.asked_before(epochs) >= epochs:
            raise UserError(
                f"no epoch of {epochs} is left after scoring the source; take more --steps, fewer "
                "--steps-per-epoch, a smaller --share, or --gradients-of reference"
            )

    def __init__(self, options: QoqOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self.check(options, epochs=context.epochs)

    def is_due(self, epoch: int) -> bool:
        """Once, before training or at the given epoch."""
        return self.scores is None and epoch >= self.options.asked_before(self.context.epochs)

    def score(self, epoch: int) -> Vector:
        """Products with the gradients of the target windows, the largest of every source window, (m,)."""
        import torch

        context, policy = self.context, self._policy()
        target = torch.cat(list(self._gradients(policy, context.target_windows)))
        scores = []
        for gradients in self._gradients(policy, context.source_windows):
            products = gradients @ target.T
            largest = self.options.over_target == "max"
            scores.append(products.amax(dim=1) if largest else products.mean(dim=1))
        return np.asarray(torch.cat(scores).double().cpu().numpy())

    def _policy(self) -> ReferencePolicy:
        context, options = self.context, self.options
        if options.gradients_of == "present":
            return context.present_policy()
        steps = max(1, round(options.share * context.epochs * context.steps_per_epoch))
        everything = np.arange(len(context.windows))
        return context.fit_reference(f"{REFERENCE}-{steps}", everything, steps)

    def _gradients(self, policy: ReferencePolicy, index: Indices) -> Iterator[Tensor]:
        """Projected gradients of these windows, (B, F), part by part."""
        from beacon.randomness import generator

        seed, options = self.context.seed, self.options
        network = policy.policy
        for start in range(0, len(index), WINDOWS):
            part = index[start : start + WINDOWS]
            conditions = policy.measure(part, 1, 0).observation.to(network.device)
            actions = policy.actions(part).to(network.device)
            noise, timesteps = network.draw_noise(
                len(part), options.draws, generator(seed, NOISE), shared=True
            )
            gradients = last_layer_gradients(network, conditions, actions, noise, timesteps)
            yield project(gradients, options.projection, seed, PROJECTION)


def last_layer_gradients(
    policy: DiffusionPolicy, conditions: Tensor, actions: Tensor, noise: Tensor, timesteps: Tensor
) -> Tensor:
    """Every window's own gradient of its mean loss over the draws, (B, parameters).

    By the weights and biases of the linear maps and convolutions among the denoiser's last layers: of a layer
    with inputs h and derivatives δ of the loss by its outputs, Σ δ hᵀ and Σ δ over draws and time.

    Args:
        policy: whose denoiser.
        conditions: (B, C).
        actions: normalised chunks, (B, horizon, A).
        noise: (D, B, horizon, A).
        timesteps: (D, B).
    """
    import torch

    layers = [m for layer in policy.denoiser.last_layers for m in layer.modules() if _is_linear(m)]
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def remember(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        seen[module] = (inputs[0].detach(), output)

    def cut(module: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
        return inputs[0].detach().requires_grad_()  # type: ignore[no-any-return]

    hooks = [layer.register_forward_hook(remember) for layer in layers]
    # The graph starts at the last layers: what lies before them is not differentiated.
    hooks.append(policy.denoiser.last_layers[0].register_forward_pre_hook(cut))
    try:
        with torch.enable_grad():
            losses = policy.per_sample_loss(conditions, actions, noise, timesteps)
            outputs = [seen[layer][1] for layer in layers]
            derivatives = torch.autograd.grad(losses.mean(dim=0).sum(), outputs)
    finally:
        for hook in hooks:
            hook.remove()
    parts = []
    for layer, delta in zip(layers, derivatives, strict=True):
        parts += _parameter_gradients(layer, seen[layer][0], delta, *losses.shape)
    return torch.cat([part.flatten(1) for part in parts], dim=1)


def _is_linear(module: nn.Module) -> bool:
    from torch import nn

    return isinstance(module, nn.Linear | nn.Conv1d)


def _parameter_gradients(
    layer: nn.Module, inputs: Tensor, delta: Tensor, draws: int, batch: int
) -> list[Tensor]:
    """Gradients of the weight and the bias of a layer, a row per window."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    if isinstance(layer, nn.Conv1d):  # over (rows, time, channels), as all convolutions of the denoiser
        kernel, padding = layer.kernel_size[0], int(layer.padding[0])
        inputs = F.pad(inputs, (0, 0, padding, padding)).unfold(1, kernel, 1).flatten(2)
    inputs = inputs.reshape(draws, batch, -1, inputs.shape[-1])
    delta = delta.reshape(draws, batch, -1, delta.shape[-1])
    return [torch.einsum("dbto,dbti->boi", delta, inputs), delta.sum(dim=(0, 2))]


def project(gradients: Tensor, size: int, *keys: int) -> Tensor:
    """A random projection to ``size`` values that keeps inner products in expectation, (B, size).

    Every value is added to one random place of the result with a random sign.

    Args:
        gradients: (B, P); returned as they are if P is not above ``size``.
        size: values that are left.
        keys: decide the projection.
    """
    import torch

    from beacon.randomness import generator

    width = gradients.shape[1]
    if width <= size:
        return gradients
    draw = generator(*keys)
    place = torch.randint(size, (width,), generator=draw).to(gradients.device)
    sign = (2 * torch.randint(2, (width,), generator=draw) - 1).to(gradients)
    return gradients.new_zeros(len(gradients), size).index_add_(1, place, gradients * sign)
