"""How long an audit takes and what it holds: python benchmarks/audit_time.py SOURCE TARGET [--demos 50 ...].

The first demonstrations of SOURCE (robomimic's layout), again from the first one where it has too few, are
copied to a temporary folder. Then the command is started as a user starts it, once for each number. Printed
are seconds on the clock and of a processor, and the largest memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py

from beacon.data.corruption import demonstrations


def copy(source: Path, out: Path, demos: int) -> int:
    """A dataset with so many demonstrations; gives back its frames."""
    frames = 0
    with h5py.File(source) as content, h5py.File(out, "w") as file:
        data, written = content["data"], file.create_group("data")
        written.attrs.update(data.attrs)
        names = demonstrations(data)
        for number in range(demos):
            data.copy(names[number % len(names)], written, f"demo_{number}")
            frames += len(written[f"demo_{number}"]["actions"])
    return frames


def measure(source: Path, target: Path, demos: int) -> dict[str, Any]:
    """One audit, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        frames = copy(source, Path(name) / "source.hdf5", demos)
        code = "from beacon.cli.main import entry; entry()"
        command = [
            "audit",
            "--source",
            f"{name}/source.hdf5",
            "--target",
            str(target),
            "--out",
            f"{name}/audit",
        ]
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"beacon audit failed: exit code {process.returncode}")
    return {
        "demos": demos,
        "frames": frames,
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def main() -> None:
    """Print a line for each number of demonstrations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--demos", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    asked = parser.parse_args()
    rows = []
    for demos in asked.demos:
        row = measure(asked.source, asked.target, demos)
        rows.append(row)
        print(
            f"{demos:>5} demonstrations  {row['frames']:>7} frames  {row['seconds']:6.1f} s  "
            f"{row['processor_seconds']:6.1f} s of a processor  "
            f"{1000 * row['processor_seconds'] / row['frames']:5.2f} ms a frame  {row['megabytes']:5.0f} MB",
            flush=True,
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
