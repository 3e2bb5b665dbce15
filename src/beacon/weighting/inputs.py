"""What the parts of a refresh look at, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.validation import Ids, Vector

if TYPE_CHECKING:
    import torch

Label = int | str


class DiscrepancyWarning(UserWarning):
    """A discrepancy or a check rests on too few data; the message says what was done instead."""


@dataclass(frozen=True, eq=False)
class RefreshInputs:
    """Everything an estimator or a check may look at; what the caller did not provide is None.

    m source samples, n target samples, embeddings of D features, action chunks of A numbers. Samples of a
    demonstration are in the order of time. Tensors may be views of what the caller has: they are not to be
    changed.

    Where several processes refresh together, ``source`` and ``source_actions`` are the rows of this one's
    `shard`; everything else is of all samples. Who does not say that it `shards` gets all rows, see `whole`.
    """

    source: torch.Tensor | None  # (m, D) float32
    target: torch.Tensor | None  # (n, D) float32
    source_domains: Ids  # (m,) index into source_labels
    source_labels: tuple[Label, ...]
    target_label: Label
    source_episodes: Ids | None = None  # (m,) demonstration of every sample
    target_episodes: Ids | None = None  # (n,)
    source_actions: torch.Tensor | None = None  # (m, A) float32
    target_actions: torch.Tensor | None = None  # (n, A)
    seed: int = 0  # another one at every refresh
    progress: float = 1.0  # 0 at the first refresh of the run, 1 at the last
    shard: Shard = WHOLE  # of the source samples

    def embeddings(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and target embeddings, or an error that names what is missing."""
        if self.source is None or self.target is None:
            raise ValueError("embeddings: this estimator needs one row of features per sample")
        return self.source, self.target

    def actions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and target action chunks, or an error that names what is missing."""
        if self.source_actions is None or self.target_actions is None:
            raise ValueError("actions: this estimator or check needs the action chunk of every sample")
        return self.source_actions, self.target_actions

    def episodes(self) -> tuple[Ids, Ids]:
        """Demonstration ids of source and target samples, or an error that names what is missing."""
        if self.source_episodes is None or self.target_episodes is None:
            raise ValueError("episodes: this estimator or check needs the demonstration id of every sample")
        return self.source_episodes, self.target_episodes

    def rows_of(self, own: torch.Tensor, index: Ids) -> torch.Tensor:
        """Rows of a table of the source samples, of which this process has its own, wherever they are.

        Args:
            own: the own rows, such as ``source``.
            index: which of all m.
        """
        import torch

        if self.shard.is_whole:
            return own[torch.from_numpy(index).to(own.device)]
        order = np.argsort(index, kind="stable")
        local = index[order][self.shard.part(index[order])] - self.shard.start
        gathered = self.shard.gather(own[torch.from_numpy(local).to(own.device)])
        rows = torch.empty_like(gathered)
        rows[torch.from_numpy(order).to(own.device)] = gathered
        return rows

    def together(self, own: torch.Tensor) -> Vector:
        """One number per source sample, of which this process has computed its own."""
        return np.asarray(self.shard.gather(own).cpu().numpy(), np.float64)

    def whole(self) -> RefreshInputs:
        """The same with the rows of all processes in each of them."""
        if self.shard.is_whole:
            return self
        tables = (self.source, self.source_actions)
        source, actions = (None if table is None else self.shard.gather(table) for table in tables)
        return replace(self, source=source, source_actions=actions, shard=WHOLE)


@dataclass(frozen=True, eq=False)
class PerSample:
    """One number per source sample, and what is worth logging about them."""

    values: Vector  # (m,)
    diagnostics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: PerSample | Any) -> PerSample:
        """What an estimator answered, in the form with diagnostics."""
        if isinstance(answer, PerSample):
            return answer
        from beacon.weighting.validation import to_numpy

        return cls(np.asarray(to_numpy("discrepancy", answer), np.float64))
