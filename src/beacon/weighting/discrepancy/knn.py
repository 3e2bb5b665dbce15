"""The paper's default: distance to the nearest target embeddings, over the target's own spread."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.plain import OMIT_DEFAULT
from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy, ratio
from beacon.weighting.inputs import DiscrepancyWarning, PerSample, RefreshInputs
from beacon.weighting.validation import Ids

if TYPE_CHECKING:
    import torch

    from beacon.weighting.discrepancy.neighbors import Neighbors

CHUNK_BYTES = 32 << 20  # of the distance table that exists at any time
NO_SPREAD = 1e-8
CAP = 100.0


@DISCREPANCIES.register("knn")
@dataclass(frozen=True)
class KNN(Discrepancy):
    """d_i = (mean distance of source i to its k nearest targets) / Z (paper, appendix B.2).

    Z is the mean over targets of the mean distance to their k nearest *other* targets, so that d ≈ 1
    means as close as targets are to each other. The embeddings are inputs only: d knows no labels.
    With one target, or none apart from another, Z is the median source distance instead.
    """

    k: int = 5  # paper: 4, 5 or 6
    # Neighbours from one demonstration are close in time and make Z small; leave them out (paper: no).
    exclude_same_demo: bool = False
    cap: float = CAP  # no discrepancy is larger
    chunk_bytes: int = CHUNK_BYTES  # bound of the distance table in memory
    # Beyond so many target samples, neighbours of the source are found by an inverted index (needs faiss):
    # approximate, and faster than comparing with all of them; 0: never.
    index_beyond: int = field(default=0, metadata=OMIT_DEFAULT)

    shards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_neighbors(self.k, self.cap)
        if self.index_beyond < 0:
            raise ValueError(f"index_beyond: must be at least 0, got {self.index_beyond}")

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """The discrepancy of every source sample."""
        source, target = inputs.embeddings()
        distances = inputs.together(self._distances(source, target))
        spread = self._spread(inputs)
        diagnostics = {"target_spread": spread, "source_distance": float(distances.mean())}
        if spread < NO_SPREAD:
            spread = float(np.median(distances))
            warnings.warn(
                "the target embeddings have no spread of their own (one target sample, or identical ones); "
                "discrepancies are relative to the median source distance instead",
                DiscrepancyWarning,
                stacklevel=2,
            )
            if spread < NO_SPREAD:
                return PerSample(np.zeros(len(distances)), diagnostics)
        return PerSample(ratio(distances, spread, self.cap), diagnostics)

    def _distances(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean distance of every source sample to its nearest targets."""
        import torch

        distances = torch.empty(len(source), dtype=torch.float64, device=source.device)
        for part, neighbors in self._nearest_targets(source, target):
            distances[part] = neighbors.mean_distance()
        return distances

    def _nearest_targets(
        self, source: torch.Tensor, target: torch.Tensor
    ) -> Iterator[tuple[slice, Neighbors]]:
        if 0 < self.index_beyond < len(target):
            from beacon.weighting.discrepancy.neighbor_index import nearest_by_index

            return nearest_by_index(source, target, self.k)
        from beacon.weighting.discrepancy.neighbors import nearest_by_parts

        return nearest_by_parts(source, target, self.k, chunk_bytes=self.chunk_bytes)

    def _spread(self, inputs: RefreshInputs) -> float:
        """Z, or zero where no target has another one to be compared with."""
        from beacon.weighting.discrepancy.neighbors import nearest

        _, target = inputs.embeddings()
        if len(target) < 2:
            return 0.0
        # Without ids every target is its own group: only itself is left out.
        own: Ids = np.arange(len(target))
        if self.exclude_same_demo:
            own = inputs.episodes()[1]
        within = nearest(target, target, self.k, own, own, self.chunk_bytes).mean_distance().cpu().numpy()
        within = within[np.isfinite(within)]  # inf: all targets are of this one's demonstration
        return float(within.mean()) if within.size else 0.0


def check_neighbors(k: int, cap: float) -> None:
    """Refuse a number of neighbours or a cap that makes no sense."""
    if k < 1:
        raise ValueError(f"k: must be at least 1, got {k}")
    if not cap > 0:
        raise ValueError(f"cap: must be above 0, got {cap}")
