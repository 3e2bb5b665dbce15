"""What every discrepancy estimator takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from beacon.weighting.checks import Ids, Vector

Label = int | str


class DiscrepancyWarning(UserWarning):
    """A discrepancy rests on too few data; the message says what was done instead."""


@dataclass(frozen=True)
class DiscrepancyInputs:
    """Everything an estimator may look at; what the caller did not provide is None.

    m source samples, n target samples, embeddings of D features, action chunks of A numbers. Samples of a
    demonstration are in the order of time.
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

    def embeddings(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and target embeddings, or an error that names what is missing."""
        if self.source is None or self.target is None:
            raise ValueError("embeddings: this discrepancy estimator needs one row of features per sample")
        return self.source, self.target

    def actions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and target action chunks, or an error that names what is missing."""
        if self.source_actions is None or self.target_actions is None:
            raise ValueError("actions: this discrepancy estimator needs the action chunk of every sample")
        return self.source_actions, self.target_actions

    def episodes(self) -> tuple[Ids, Ids]:
        """Demonstration ids of source and target samples, or an error that names what is missing."""
        if self.source_episodes is None or self.target_episodes is None:
            raise ValueError(
                "episodes: this discrepancy estimator needs the demonstration id of every sample"
            )
        return self.source_episodes, self.target_episodes


@dataclass(frozen=True)
class Discrepancy:
    """One number per source sample, and what is worth logging about them."""

    values: Vector  # (m,)
    diagnostics: Mapping[str, float] = field(default_factory=dict)


def as_discrepancy(found: Discrepancy | Vector) -> Discrepancy:
    """What an estimator returned, in the form with diagnostics."""
    return found if isinstance(found, Discrepancy) else Discrepancy(np.asarray(found))


class Estimator(Protocol):
    """Estimates discrepancies; may have an attribute ``constant = True`` to be asked only once."""

    def __call__(self, inputs: DiscrepancyInputs, /) -> Discrepancy | Vector: ...


def ratio(distances: Vector, norm: Vector | float, cap: float) -> Vector:
    """``distances / norm``, at most ``cap``; zero over zero is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.divide(distances, norm)
    return np.minimum(np.where(distances > 0, quotient, 0.0), cap)
