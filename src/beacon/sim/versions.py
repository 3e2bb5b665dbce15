"""The versions of what a result depends on."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata


def software(packages: Sequence[str] = ()) -> dict[str, str]:
    """Installed versions, for datasets and results.

    Args:
        packages: further ones, that a task needs.
    """
    versions = {"python": platform.python_version()}
    for name, package in (
        ("beacon", "beacon-cotraining"),
        ("robosuite", "robosuite"),
        ("mujoco", "mujoco"),
        ("numpy", "numpy"),
        ("torch", "torch"),
        *((package, package) for package in packages),
    ):
        try:
            versions[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
