"""provenance.json: with what software, on what machine, a run was trained. Nothing in it names the
machine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from beacon import __version__
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.runs.reading import read_json

PROVENANCE = "provenance.json"
PACKAGES = ("torch", "numpy", "diffusers", "h5py", "scipy", "scikit-learn")


def describe_session(device: str) -> dict[str, Any]:
    """Software and machine of this process.

    Args:
        device: type of the device that computes, such as "cpu".
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "beacon": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "system": platform.system(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": device,
    }


def note_session(run: Path, device: str) -> None:
    """Add this process to the sessions of a run.

    Args:
        run: the run folder.
        device: type of the device that computes.
    """
    file = run / PROVENANCE
    try:
        sessions = read_json(file)
    except (FileNotFoundError, UserError):
        sessions = []
    sessions = sessions if isinstance(sessions, list) else []
    write_bytes(file, (json.dumps([*sessions, describe_session(device)], indent=1) + "\n").encode())


def processor() -> str:
    """The model of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of a checkout that this code runs from; None for an installed package."""
    home = Path(__file__).resolve().parents[3]
    if not (home / ".git").exists():
        return None
    try:
        words = ["git", "-C", str(home), "rev-parse", "HEAD"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
