"""What the system says about the processes of a run: threads of their group, frames that they share."""

from __future__ import annotations

from pathlib import Path


def group_threads() -> list[str]:
    """Names of gloo's threads in this process."""
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


def mapped_frames(process: Path) -> set[tuple[str, ...]]:
    """Device, number and path of the files with frames that a process has mapped, shared with others."""
    lines = [line.split(maxsplit=5) for line in read(process / "maps").splitlines()]
    named = [line for line in lines if len(line) == 6 and line[5].endswith(".npy")]
    return {tuple(line[3:]) for line in named if line[1].endswith("s")}


def read(file: Path) -> str:
    """A file that may be gone."""
    try:
        return file.read_text()
    except OSError:
        return ""
