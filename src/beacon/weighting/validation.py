"""Boundary checks: what comes in is turned into arrays, or refused by the argument's name and first bad
index.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int64]

NUMBERS = "biuf"  # kinds of NumPy dtypes that are plain numbers


def require(condition: bool, name: str, expected: str, got: object) -> None:
    """Raise a ValueError that names an option, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{name}: must be {expected}, got {got!r}")


def is_non_negative(value: float) -> bool:
    """Whether an option is a finite number of at least zero."""
    return math.isfinite(value) and value >= 0


def to_numpy(name: str, value: Any) -> NDArray[Any]:
    """A NumPy array of a torch tensor (any device), an array or a sequence.

    Args:
        name: of the argument, for messages.
        value: what the user gave.
    """
    import torch

    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        if tensor.is_complex():
            raise ValueError(f"{name}: must be real numbers, got {tensor.dtype}")
        if tensor.layout != torch.strided:
            raise ValueError(f"{name}: sparse tensors are not taken; give .to_dense()")
        return np.asarray(tensor.to("cpu", torch.float64 if tensor.is_floating_point() else None).numpy())
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"{name}: masked arrays are not taken; fill in the masked entries, or leave them out"
        )
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: cannot be read as an array ({error})") from None


def finite_vector(name: str, value: Any, length: int) -> Vector:
    """``value`` as a float64 vector of ``length`` finite numbers; a copy is made only when needed."""
    array = to_numpy(name, value)
    require_numbers(name, array)
    array = np.ascontiguousarray(array, dtype=np.float64)
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
    import torch

    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        if tensor.is_complex():
            raise ValueError(f"{name}: must be real numbers, got {tensor.dtype}")
        if tensor.layout != torch.strided:
            raise ValueError(f"{name}: sparse tensors are not taken; give .to_dense()")
    else:
        array = to_numpy(name, value)
        require_numbers(name, array)
        # torch takes no foreign byte orders, no negative strides and no extended precision.
        dtype = np.dtype(np.float64) if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
        tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=dtype))
    if tensor.ndim < 1 or tensor.shape[0] != rows:
        raise ValueError(
            f"{name}: expected one row per sample ({rows} rows), got shape {tuple(tensor.shape)}"
        )
    tensor = tensor.reshape(rows, -1).to(torch.float32)
    if tensor.shape[1] == 0:
        raise ValueError(f"{name}: the rows have no features, shape {tuple(tensor.shape)}")
    # A sum is finite only if all its parts are: one cheap pass in the common case. In float32, because for
    # another type torch copies the whole; what overflows is looked at closely.
    if not torch.isfinite(tensor.sum()):
        bad = ~torch.isfinite(tensor).all(dim=1)
        if bad.any():
            raise ValueError(f"{name}[{int(bad.nonzero()[0])}] is not finite; {_count(int(bad.sum()))}")
    return tensor


def number_episodes(value: Any, length: int) -> tuple[tuple[int | str, ...], Ids]:
    """The demonstration ids in ``value``, one per sample: sorted, and the index of each sample's."""
    array = to_numpy("episodes", value)
    if array.dtype.kind not in "iuUS":
        raise ValueError(f"episodes: ids must be all int or all str, got {array.dtype}")
    if array.shape != (length,):
        raise ValueError(f"episodes: expected one id per sample, shape ({length},), got {array.shape}")
    labels, index = np.unique(array, return_inverse=True)
    return tuple(labels.tolist()), np.asarray(index, dtype=np.int64)


def refuse(name: str, bad: Mask, values: NDArray[Any], why: str) -> None:
    """Raise for the first true entry of ``bad``, naming the argument, the index and the value."""
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"{name}[{first}] = {values[first]} {why}; {_count(int(bad.sum()))}")


def require_numbers(name: str, array: NDArray[Any]) -> None:
    """Refuse an array of anything but real numbers."""
    if array.dtype.kind not in NUMBERS:
        raise ValueError(f"{name}: must be real numbers, got {array.dtype}")


def _count(bad: int) -> str:
    return "it is the only bad entry" if bad == 1 else f"{bad} entries are bad, this is the first"
