"""The versions of what a result depends on."""

from __future__ import annotations

import platform
from importlib import metadata


def software() -> dict[str, str]:
    """Installed versions, for datasets and results."""
    versions = {"python": platform.python_version()}
    for name, package in (
        ("beacon", "beacon-cotraining"),
        ("robosuite", "robosuite"),
        ("mujoco", "mujoco"),
        ("numpy", "numpy"),
        ("torch", "torch"),
    ):
        try:
            versions[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
