"""Latents of a small variational autoencoder (Kingma and Welling 2014), for methods that score data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from beacon.methods.option_checks import require_at_least, require_positive

if TYPE_CHECKING:
    from torch import Tensor

ENCODER, DECODER, STEPS = 0, 1, 2  # streams of randomness
LARGEST_BATCH = 4096  # when encoding


@dataclass(frozen=True)
class VaeTraining:
    """How the autoencoders of a scoring method are trained."""

    # Hidden units of encoder and decoder, in each of two layers; DemInf: 512.
    hidden: int = 512
    # Learning rate (Adam); DemInf: 1e-4.
    learning_rate: float = 1e-4
    # Gradient steps, and samples in each; ours.
    steps: int = 1000
    batch_size: int = 256

    def __post_init__(self) -> None:
        whole = {"hidden": self.hidden, "steps": self.steps, "batch_size": self.batch_size}
        require_at_least(1, **{f"vae.{name}": value for name, value in whole.items()})
        require_positive(**{"vae.learning_rate": self.learning_rate})


def vae_latents(inputs: Tensor, latent: int, beta: float, training: VaeTraining, *keys: int) -> Tensor:
    """Means of the latents of all samples, (N, latent), after training on them.

    The loss is the mean squared error of the inputs plus β times the divergence of the latents
    from a standard normal distribution, summed over the latents.

    Args:
        inputs: samples, (N, D), with a variance of about one.
        latent: how many latents.
        beta: β.
        training: of the autoencoder.
        keys: decide everything that is drawn at random.
    """
    import torch

    from beacon.methods.networks import make_mlp
    from beacon.randomness import generator

    data = inputs.float()
    size, width = data.shape
    hidden = (training.hidden, training.hidden)
    encoder = make_mlp((width, *hidden, 2 * latent), *keys, ENCODER)
    decoder = make_mlp((latent, *hidden, width), *keys, DECODER)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=training.learning_rate)
    for step in range(training.steps):
        draw = generator(*keys, STEPS, step)
        batch = data[torch.randint(size, (min(size, training.batch_size),), generator=draw)]
        mean, log_variance = encoder(batch).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=draw)
        error = (decoder(mean + (0.5 * log_variance).exp() * noise) - batch).square().mean()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean()
        optimizer.zero_grad(set_to_none=True)
        (error + beta * divergence).backward()
        optimizer.step()
    with torch.no_grad():
        parts = [encoder(part).chunk(2, dim=1)[0] for part in data.split(LARGEST_BATCH)]
    return torch.cat(parts)


def standardised(values: Tensor) -> Tensor:
    """Columns of mean 0 and standard deviation 1; those that never vary become 0."""
    values = values.float()
    return (values - values.mean(dim=0)) / values.std(dim=0, correction=0).clamp_min(1e-6)
