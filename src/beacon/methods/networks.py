"""Small networks that methods train for themselves: their parameters are a function of a seed alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def make_mlp(sizes: Sequence[int], *keys: int) -> nn.Sequential:
    """Linear layers of these sizes with ReLU between them.

    The global random state is neither read nor changed.

    Args:
        sizes: inputs, hidden layers, outputs.
        keys: decide the initial parameters.
    """
    import torch
    from torch import nn

    from beacon.randomness import generator

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(*keys).initial_seed())
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
