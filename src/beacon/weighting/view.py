"""`WeightView`: looking at the weights of a `Reweighter`."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch

from beacon.analysis import effective_sample_size
from beacon.devices import upload
from beacon.weighting.bound import BoundReport, bound_report
from beacon.weighting.config import WeightingConfig
from beacon.weighting.inputs import Label
from beacon.weighting.samples import Samples
from beacon.weighting.state import WeightState
from beacon.weighting.validation import Vector

PAPER_GAMMA = 1e-6


class WeightView:
    """The weights of all samples, by sample, demonstration and domain."""

    config: WeightingConfig
    budget: float  # what the weights sum to
    planned_refreshes: int
    _samples: Samples
    _state: WeightState
    _device_copy: tuple[WeightState | None, torch.Tensor | None] = (None, None)  # of which state, the weights

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        masses = ", ".join(f"{label}: {mass:.4g}" for label, mass in self.mass.items())
        return (
            f"Reweighter({len(self)} samples, target={self._samples.target_label!r}, "
            f"refresh {self.refresh_count} of {self.planned_refreshes}, mass {{{masses}}}, "
            f"largest weight {self.max:.4g})"
        )

    @overload
    def __getitem__(self, index: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """The weights at ``index``: a float32 tensor on its device for a tensor, otherwise as NumPy."""
        if isinstance(index, torch.Tensor):
            # A single number would be a view of the copy that all steps share.
            return self._on_device(index.device)[index].clone()
        return self._q[index]

    def _on_device(self, device: torch.device) -> torch.Tensor:
        """All weights as float32 on a device, uploaded once a refresh: a training step waits for nothing."""
        state, cached = self._device_copy
        if state is not self._state or cached is None or cached.device != device:
            cached = upload(torch.as_tensor(self._q, dtype=torch.float32), device)
            self._device_copy = (self._state, cached)
        return cached

    @property
    def weights(self) -> Vector:
        """All weights, shape (N,), as a copy."""
        return self._q.copy()

    def episode_weights(self) -> dict[Label, float]:
        """The mean weight of every demonstration, by its id, sorted."""
        if self._samples.episodes is None:
            raise ValueError("episodes: the demonstration id of every sample is needed")
        means = self._samples.demo_means(self._q)
        _, first = np.unique(self._samples.episodes, return_index=True)
        return dict(zip(self._samples.episode_labels, means[first].tolist(), strict=True))

    @property
    def discrepancies(self) -> Vector:
        """The discrepancies of the last refresh, shape (N,), as a copy; zero on the target."""
        return self._state.discrepancies.copy()

    @property
    def refresh_count(self) -> int:
        """How many refreshes there have been."""
        return self._state.refresh_count

    @property
    def max(self) -> float:
        """‖q‖_∞. BEACON's weight decay is ``gamma * rw.max``."""
        return float(self._q.max())

    @property
    def weight_decay(self) -> float:
        """γ‖q‖_∞, the decoupled weight decay until the next refresh."""
        return self._gamma * self.max

    @property
    def mass(self) -> dict[Label, float]:
        """Sum of the weights of every domain."""
        return {label: float(self._q[self._samples.members(label)].sum()) for label in self.labels}

    @property
    def domain_weights(self) -> dict[Label, float]:
        """w: the weight of every source domain; one where there is a single source, or a pooled one."""
        if not self._two_level:
            return dict.fromkeys(self.source_labels, 1.0)
        return dict(zip(self.source_labels, self._state.weights.w.tolist(), strict=True))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All domains, the target first."""
        return self._samples.labels

    @property
    def source_labels(self) -> tuple[Label, ...]:
        """The source domains, sorted."""
        return self._samples.source_labels

    @property
    def effective_sample_size(self) -> float:
        """(Σq)²/Σq²: with how many equally weighted samples these weights would be as noisy."""
        return effective_sample_size(self._q)

    def effective_sample_sizes(self) -> dict[Label, float]:
        """The effective sample size within every domain."""
        return {label: effective_sample_size(self._q[self._samples.members(label)]) for label in self.labels}

    def bound(self, losses: Any, **estimates: Any) -> BoundReport:
        """The generalization bound at the present weights; see `beacon.weighting.bound_report`."""
        return bound_report(self._q, losses, self._samples.on_target, **estimates)

    @property
    def _q(self) -> Vector:
        if self.refresh_count == 0:
            return np.full(len(self), self.budget / len(self))
        return self._state.weights.q

    @property
    def _two_level(self) -> bool:
        return len(self.source_labels) > 1 and not self.config.pool_sources

    @property
    def _gamma(self) -> float:
        return PAPER_GAMMA if self.config.gamma is None else self.config.gamma
