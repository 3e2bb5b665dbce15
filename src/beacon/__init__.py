"""BEACON: best-effort adaptation for cross-domain co-training of robot policies.

Everything heavy loads on first use, so that ``import beacon`` and ``beacon --help`` stay fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.policy import load_policy
    from beacon.weighting import Reweighter

__version__ = "0.1.0"
__all__ = ["Reweighter", "__version__", "load_policy"]

_HOMES = {"Reweighter": "beacon.weighting", "load_policy": "beacon.policy"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'beacon' has no attribute {name!r}")
