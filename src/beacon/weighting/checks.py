"""Boundary checks: what comes in is turned into float64 vectors, or refused by name and first bad index."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int64]


def to_numpy(value: Any) -> NDArray[Any]:
    """A NumPy array of a torch tensor (any device), an array or a sequence."""
    if isinstance(value, torch.Tensor):
        return np.asarray(
            value.detach().to("cpu", torch.float64 if value.is_floating_point() else None).numpy()
        )
    return np.asarray(value)


def finite_vector(name: str, value: Any, length: int) -> Vector:
    """``value`` as a float64 vector of ``length`` finite numbers; a copy is made only when needed."""
    array = np.ascontiguousarray(to_numpy(value), dtype=np.float64)
    if array.shape != (length,):
        raise ValueError(f"{name}: expected one number per sample, shape ({length},), got {array.shape}")
    refuse(name, ~np.isfinite(array), array, "is not finite")
    return array


def non_negative_vector(name: str, value: Any, length: int) -> Vector:
    """As `finite_vector`, and no entry may be below zero."""
    array = finite_vector(name, value, length)
    refuse(name, array < 0, array, "is negative")
    return array


def finite_matrix(name: str, value: Any, rows: int) -> torch.Tensor:
    """``value`` as a float32 tensor (rows, features) on its own device; more dimensions are flattened."""
    tensor = value.detach() if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value))
    if tensor.ndim < 1 or tensor.shape[0] != rows:
        raise ValueError(
            f"{name}: expected one row per sample ({rows} rows), got shape {tuple(tensor.shape)}"
        )
    tensor = tensor.reshape(rows, -1).to(torch.float32)
    if tensor.shape[1] == 0:
        raise ValueError(f"{name}: the rows have no features, shape {tuple(tensor.shape)}")
    # A sum is finite only if all its parts are: one cheap pass in the common case.
    if not torch.isfinite(tensor.sum(dtype=torch.float64)):
        bad = ~torch.isfinite(tensor).all(dim=1)
        if bad.any():
            raise ValueError(f"{name}[{int(bad.nonzero()[0])}] is not finite; {_count(int(bad.sum()))}")
    return tensor


def episode_ids(value: Any, length: int) -> Ids:
    """``value`` as a vector of demonstration ids, one per sample."""
    array = to_numpy(value)
    if array.shape != (length,):
        raise ValueError(f"episodes: expected one id per sample, shape ({length},), got {array.shape}")
    _, ids = np.unique(array, return_inverse=True)
    return np.asarray(ids, dtype=np.int64)


def refuse(name: str, bad: Mask, values: NDArray[Any], why: str) -> None:
    """Raise for the first true entry of ``bad``, naming the argument, the index and the value."""
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"{name}[{first}] = {values[first]} {why}; {_count(int(bad.sum()))}")


def _count(bad: int) -> str:
    return "it is the only bad entry" if bad == 1 else f"{bad} entries are bad, this is the first"
