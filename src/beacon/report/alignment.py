"""How well the domains mix in a feature space, in three numbers."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.analysis.alignment import balanced_pool, cross_domain_neighbours
from beacon.weighting import KNN, DomainClassifier, RefreshInputs
from beacon.weighting.discrepancy.neighbors import nearest

NEIGHBOURS = 10
FOLDS = 5


@dataclass(frozen=True)
class Alignment:
    """Numbers of a feature space; None where there are too few demonstrations to say."""

    auc: float | None  # of a cross-fitted domain classifier: 0.5 cannot tell, 1 always can
    neighbours: float | None  # share of a window's neighbours from the other side
    mixed: float | None  # what that share would be if the domains could not be told apart
    discrepancy: float | None  # mean k-NN discrepancy of the source: 1 is as close as targets to each other

    def to_dict(self) -> dict[str, float | None]:
        """Plain values."""
        return asdict(self)


def measure_alignment(
    features: NDArray[np.float32], on_target: NDArray[np.bool_], demos: NDArray[np.int64]
) -> Alignment:
    """Compare source and target rows of features; windows of one demonstration never vouch for it.

    Args:
        features: (P, D).
        on_target: which rows are the target's, (P,).
        demos: the demonstration of every row, (P,).
    """
    source, target = ~on_target, on_target
    if not source.any() or not target.any():
        return Alignment(None, None, None, None)
    tensor = torch.from_numpy(np.ascontiguousarray(features))
    inputs = RefreshInputs(
        source=tensor[source],
        target=tensor[target],
        source_domains=np.zeros(int(source.sum()), np.int64),
        source_labels=("source",),
        target_label="target",
        source_episodes=demos[source],
        target_episodes=demos[target],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report shows the numbers; training has warned
        discrepancy = float(KNN()(inputs).values.mean())
        auc = None
        if min(len(np.unique(demos[source])), len(np.unique(demos[target]))) >= 2:
            auc = float(DomainClassifier(folds=FOLDS)(inputs).diagnostics["auc"])
    share, chance = _neighbours(tensor, on_target, demos)
    return Alignment(auc, share, chance, discrepancy)


def _neighbours(
    features: torch.Tensor, on_target: NDArray[np.bool_], demos: NDArray[np.int64]
) -> tuple[float | None, float | None]:
    """The share of a window's nearest windows that are of the other side, and by chance."""
    if any(len(np.unique(demos[side])) < 2 for side in (on_target, ~on_target)):
        return None, None  # alone in its domain, a demonstration has only strangers for neighbours
    pool = balanced_pool(on_target)
    groups = demos[pool]
    neighbours = nearest(features[pool], features[pool], NEIGHBOURS, groups, groups)
    near = np.isfinite(neighbours.distances.numpy())
    return cross_domain_neighbours(neighbours.indices.numpy(), near, on_target[pool], groups)
