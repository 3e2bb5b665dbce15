"""`WeightState`: everything that changes in a `Reweighter`, and how it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.weighting.problem import Weights
from beacon.weighting.samples import Samples
from beacon.weighting.validation import Vector, refuse, require_numbers, to_numpy


@dataclass(frozen=True, eq=False)
class WeightState:
    """Weights after so many refreshes, and what they were found from."""

    weights: Weights
    p0: Vector  # (N,) reference weights
    base: Vector | None  # (m,) answer of an estimator that is asked once, before any check
    discrepancies: Vector  # (N,) of the last refresh, zero on the target
    losses: Vector  # (N,) of the last refresh
    refresh_count: int

    @classmethod
    def start(cls, p0: Vector, samples: Samples) -> WeightState:
        """Before the first refresh."""
        zeros = np.zeros(len(samples))
        weights = Weights.start(p0, samples.source, len(samples.source_labels))
        return cls(weights, p0, None, zeros, zeros, 0)

    def to_tensors(self, samples: Samples) -> dict[str, torch.Tensor]:
        """All of it as tensors, which ``torch.load`` takes under its safe default."""
        arrays: dict[str, NDArray[Any]] = {
            "q": self.weights.q,
            "q_tilde": self.weights.q_tilde,
            "w": self.weights.w,
            "shift": np.array(self.weights.shift),
            "p0": self.p0,
            "base": np.zeros(0) if self.base is None else self.base,
            "discrepancies": self.discrepancies,
            "losses": self.losses,
            "refresh_count": np.array(self.refresh_count),
            "layout": samples.fingerprint(),
        }
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, state: Mapping[str, Any], like: WeightState, samples: Samples) -> WeightState:
        """The inverse of `to_tensors`; refuses what is of other samples, not finite or negative.

        Args:
            state: tensors or arrays by name.
            like: a state of the same Reweighter, which says what shapes are right.
            samples: of that Reweighter.
        """
        own = {name: tensor.numpy() for name, tensor in like.to_tensors(samples).items()}
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"state: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
        new = {}
        for name, value in own.items():
            array = to_numpy(f"state: {name}", state[name])
            sources = int(np.count_nonzero(~samples.on_target))
            shapes = [(0,), (sources,)] if name == "base" else [value.shape]
            if array.shape not in shapes:
                raise ValueError(
                    f"state: {name!r} has shape {array.shape}, this Reweighter needs {value.shape}"
                )
            require_numbers(f"state: {name}", array)
            if name in ("shift", "refresh_count") and not np.isfinite(array):
                raise ValueError(f"state: {name} = {array} is not finite")
            new[name] = array.astype(value.dtype)
        if new["refresh_count"] < 0:
            raise ValueError(f"state: refresh_count = {new['refresh_count']} is negative")
        if not np.array_equal(new["layout"], own["layout"]):
            raise ValueError("state: it belongs to other samples (their domains or order differ)")
        for name in ("q", "q_tilde", "w", "p0", "base", "discrepancies", "losses"):
            refuse(f"state: {name}", ~np.isfinite(new[name]), new[name], "is not finite")
            if name != "losses":
                refuse(f"state: {name}", new[name] < 0, new[name], "is negative")
        return cls(
            Weights(new["q"], new["w"], new["q_tilde"], float(new["shift"])),
            new["p0"],
            new["base"] if new["base"].size else None,
            new["discrepancies"],
            new["losses"],
            int(new["refresh_count"]),
        )
