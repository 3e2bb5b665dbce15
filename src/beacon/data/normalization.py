"""Min–max scaling of actions and proprioception to [-1, 1], as plain numbers that travel with the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError

Statistics = Literal["pooled", "target", "per-domain"]
Range = tuple[NDArray[np.float64], NDArray[np.float64]]  # low, high, each (K, d)

# A dimension that varies by less than this is constant: scaling it up would only magnify noise.
SMALLEST_RANGE = 1e-4


@dataclass(frozen=True, eq=False)
class Normalizer:
    """``x ↦ (x − c) / h`` per dimension, with c = (low + high) / 2 and h = (high − low) / 2.

    A constant dimension maps to 0 and back to its constant. K is 1, or the number of domains for
    ``per-domain`` statistics; without a domain the target's are used, as at test time, and where there is no
    target those of the only domain.

    >>> import torch
    >>> low, high = np.array([[0.0, 5.0]]), np.array([[10.0, 5.0]])
    >>> Normalizer("pooled", 0, (low, high), {}).normalize_actions(torch.tensor([[7.5, 5.0]]))
    tensor([[0.5000, 0.0000]])
    """

    statistics: Statistics
    target: int | None  # number of the target domain; None where there is none
    actions: Range  # (K, A) each
    proprio: Mapping[str, Range]  # key -> (K, d) each
    quantile: float | None = None
    _tensors: dict[Any, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(
        cls,
        sets: Sequence[EpisodeSet],
        *,
        statistics: Statistics = "pooled",
        quantile: float | None = None,
        target: int | None = 0,
    ) -> Normalizer:
        """Ranges from all frames, from the target's, or from each domain's own.

        ``quantile=0.01`` takes the 1% and 99% quantiles instead of the extremes, so that a few outliers do
        not squeeze everything else together; values outside the range then map outside [-1, 1].
        """
        if statistics not in get_args(Statistics):
            raise UserError(f"statistics '{statistics}': choose from {', '.join(get_args(Statistics))}")
        if quantile is not None and not 0 < quantile < 0.5:
            raise UserError(f"quantile {quantile}: must lie between 0 and 0.5, for example 0.01")
        if target is not None and not 0 <= target < len(sets):
            raise UserError(f"target {target}: the domains are 0..{len(sets) - 1}")
        groups = _groups(sets, statistics, target)

        def ranges(arrays: list[list[NDArray[np.float32]]]) -> Range:
            each = [_range(np.concatenate(group), quantile) for group in arrays]
            return np.stack([low for low, _ in each]), np.stack([high for _, high in each])

        return cls(
            statistics=statistics,
            target=target,
            actions=ranges([[s.actions for s in group] for group in groups]),
            proprio={k: ranges([[s.proprio[k] for s in group] for group in groups]) for k in sets[0].proprio},
            quantile=quantile,
        )

    def normalize_actions(self, actions: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """(B, ..., A) to [-1, 1]; ``domain`` is one for all or a tensor (B,)."""
        centre, _, inverse = self._constants("actions", self.actions, actions, domain)
        return (actions - centre) * inverse

    def denormalize_actions(self, actions: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """(B, ..., A) from [-1, 1] back to the robot's units."""
        centre, half, _ = self._constants("actions", self.actions, actions, domain)
        return actions * half + centre

    def normalize_proprio(self, key: str, values: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """(B, ..., d) to [-1, 1]."""
        centre, _, inverse = self._constants(f"proprio/{key}", self.proprio[key], values, domain)
        return (values - centre) * inverse

    def denormalize_proprio(self, key: str, values: Tensor, domain: Tensor | int | None = None) -> Tensor:
        """(B, ..., d) from [-1, 1] back to its units."""
        centre, half, _ = self._constants(f"proprio/{key}", self.proprio[key], values, domain)
        return values * half + centre

    def affine(self) -> dict[str, Any]:
        """The target's scaling as ``normalised = (x − offset) / scale``, what a policy carries with it.

        A scale of 0 marks a constant dimension: 0 when normalised, ``offset`` back.
        """
        row = self._own if self.statistics == "per-domain" else 0

        def describe(limits: Range) -> dict[str, list[float]]:
            low, high = limits[0][row], limits[1][row]
            half = (high - low) / 2
            scale = np.where(high - low < SMALLEST_RANGE, 0.0, half)
            return {"offset": ((low + high) / 2).tolist(), "scale": scale.tolist()}

        return {
            "actions": describe(self.actions),
            "proprio": {key: describe(limits) for key, limits in self.proprio.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; every number comes back exactly."""
        return {
            "statistics": self.statistics,
            "quantile": self.quantile,
            "target": self.target,
            "actions": _range_to_dict(self.actions),
            "proprio": {key: _range_to_dict(limits) for key, limits in self.proprio.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Normalizer:
        """The inverse of :meth:`to_dict`."""
        return cls(
            statistics=values["statistics"],
            target=None if values["target"] is None else int(values["target"]),
            actions=_range_from_dict(values["actions"]),
            proprio={key: _range_from_dict(limits) for key, limits in values["proprio"].items()},
            quantile=values["quantile"],
        )

    @property
    def _own(self) -> int:
        """The domain by whose ranges a policy acts: the target, or the only one."""
        return self.target or 0

    def _constants(
        self, name: str, limits: Range, values: Tensor, domain: Tensor | int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centre, half range and its inverse, shaped to multiply ``values``."""
        where = (name, values.device, values.dtype)
        if where not in self._tensors:
            low, high = limits
            constant = high - low < SMALLEST_RANGE
            half = np.where(constant, 0.0, (high - low) / 2)
            inverse = np.where(constant, 0.0, 1 / np.where(constant, 1.0, half))
            # Made as ordinary tensors even when first needed in inference mode: training may be next.
            with torch.inference_mode(False):
                self._tensors[where] = (
                    torch.as_tensor((low + high) / 2, dtype=values.dtype, device=values.device),
                    torch.as_tensor(half, dtype=values.dtype, device=values.device),
                    torch.as_tensor(inverse, dtype=values.dtype, device=values.device),
                )
        constants = self._tensors[where]  # (K, d) each
        if self.statistics != "per-domain":
            centre, half_range, inverse_range = (t[0] for t in constants)
        elif domain is None or isinstance(domain, int):
            row = self._own if domain is None else domain
            centre, half_range, inverse_range = (t[row] for t in constants)
        else:
            shape = (len(values), *(1,) * (values.ndim - 2), -1)
            rows = domain.to(values.device)
            centre, half_range, inverse_range = (t[rows].reshape(shape) for t in constants)
        return centre, half_range, inverse_range


def _groups(sets: Sequence[EpisodeSet], statistics: Statistics, target: int | None) -> list[list[EpisodeSet]]:
    """The sets that share a range, a list for each range."""
    if statistics == "pooled":
        return [list(sets)]
    if statistics == "target":
        if target is None:
            raise UserError("--statistics target needs target demonstrations; say --target FILE")
        return [[sets[target]]]
    if target is None and len(sets) > 1:
        raise UserError(
            "--statistics per-domain needs target demonstrations where there are several sources, "
            "because the policy acts by the target's ranges; say --target FILE, or --statistics pooled"
        )
    return [[episodes] for episodes in sets]


def _range(values: NDArray[np.float32], quantile: float | None) -> Range:
    """Low and high of each dimension of (F, d)."""
    low, high = values.min(0).astype(np.float64), values.max(0).astype(np.float64)
    if quantile is not None:
        inner_low, inner_high = np.quantile(values.astype(np.float64), [quantile, 1 - quantile], axis=0)
        # A gripper that closes in less than 1% of the frames must not be taken for a constant.
        useful = inner_high - inner_low >= SMALLEST_RANGE
        low, high = np.where(useful, inner_low, low), np.where(useful, inner_high, high)
    return low, high


def _range_to_dict(limits: Range) -> dict[str, list[list[float]]]:
    return {"low": limits[0].tolist(), "high": limits[1].tolist()}


def _range_from_dict(values: Mapping[str, Any]) -> Range:
    return np.array(values["low"], np.float64), np.array(values["high"], np.float64)
