"""docs/add-a-method.md does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-method.md"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the guide's files."""
    blocks = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["fading.py", "test_fading.py"]
    assert sum(len(text.splitlines()) for _, text in blocks) < 60
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_guides_method_passes_the_guides_test(files: Path) -> None:
    done = run(files, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fading.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_an_entry_point_is_found_by_the_command_line(files: Path) -> None:
    """An installed package is a folder with metadata on the path."""
    metadata = files / "fading-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fading\nVersion: 1.0\n")
    declared = re.search(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert declared is not None
    lines = (
        declared[1].replace('[project.entry-points."beacon.methods"]', "[beacon.methods]").replace('"', "")
    )
    (metadata / "entry_points.txt").write_text(lines + "broken = nowhere:Nothing\n")
    entry = "from beacon.cli.main import entry; entry()"
    done = run(files, "-c", entry, "train", "--method", "fading", "--help-all")
    assert done.returncode == 0, done.stderr
    assert "--start" in done.stdout and "Share of the source at the beginning" in done.stdout
    assert "the method 'broken' (nowhere:Nothing) is left out" in done.stderr
