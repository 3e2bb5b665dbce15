"""One name for NumPy arrays in annotations; shapes and units are said where they matter."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
