"""provenance.json: with what software, on what machine, a run was trained. Nothing in it names the
machine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from beacon import __version__
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.runs.layout import CONFIG
from beacon.runs.reading import read_json
from beacon.runs.run import Run

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
    sessions = [*read_sessions(run), describe_session(device)]
    write_bytes(run / PROVENANCE, (json.dumps(sessions, indent=1) + "\n").encode())


def read_sessions(run: Path) -> list[dict[str, Any]]:
    """The processes that trained a run, in their order; none where that is not known.

    Args:
        run: the run folder.
    """
    try:
        sessions = read_json(run / PROVENANCE)
    except (FileNotFoundError, UserError):
        return []
    return [one for one in sessions if isinstance(one, dict)] if isinstance(sessions, list) else []


def describe_run(run: Path) -> dict[str, Any]:
    """What made a run, for results that come of it: data, code and machine, options. No paths.

    Args:
        run: the run folder; of what it does not have nothing is said.
    """
    parts: dict[str, Any] = {"data": describe_data(run), "sessions": read_sessions(run)}
    with suppress(OSError):
        parts["config_sha256"] = sha256((run / CONFIG).read_bytes()).hexdigest()
    return {name: value for name, value in parts.items() if value}


def describe_data(run: Path) -> list[dict[str, Any]]:
    """Name, role, size and hashes of every domain; no paths, which are nobody else's business.

    Args:
        run: the run folder.
    """
    try:
        records = Run(run).domains
    except UserError:
        return []
    return [
        {
            "name": record.name,
            "role": "target" if record.is_target else "source",
            "demonstrations": len(record.demos),
            "actions_sha256": record.actions,
            "first_frames_sha256": record.frames,
        }
        for record in records
    ]


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
