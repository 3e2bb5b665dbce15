"""docs/add-a-method.md and docs/add-a-part.md do what they say."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beacon.methods import METHODS, Method

DOCS = Path(__file__).parents[2] / "docs"
METHOD, PART = DOCS / "add-a-method.md", DOCS / "add-a-part.md"


def write_files(guide: Path, names: list[str], folder: Path) -> Path:
    """The guide's files in a folder."""
    blocks = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", guide.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == names
    for name, text in blocks:
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def method_files(tmp_path: Path) -> Path:
    """A folder with the files of the guide to methods."""
    write_files(METHOD, ["fading.py", "test_fading.py"], tmp_path)
    assert sum(len(file.read_text().splitlines()) for file in tmp_path.iterdir()) < 60
    return tmp_path


@pytest.fixture
def part_files(tmp_path: Path) -> Path:
    """A folder with the files of the guide to parts."""
    write_files(PART, ["centroid.py", "duration.py", "feature_norm.py", "test_my_parts.py"], tmp_path)
    assert all(len(file.read_text().splitlines()) < 50 for file in tmp_path.iterdir())
    return tmp_path


def install(guide: Path, folder: Path) -> None:
    """Make a folder what an installed package is: one with metadata on the path."""
    metadata = folder / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    declared = re.search(r"```toml\n(.*?)```", guide.read_text(), re.DOTALL)
    assert declared is not None
    lines = re.sub(r'\[project\.entry-points\."(\S+)"\]', r"[\1]", declared[1]).replace('"', "")
    (metadata / "entry_points.txt").write_text(lines + "broken = nowhere:Nothing\n")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_guides_method_passes_the_guides_test(method_files: Path) -> None:
    done = run(method_files, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fading.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_guides_parts_pass_the_guides_test(part_files: Path) -> None:
    done = run(part_files, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_parts.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_an_entry_point_is_found_by_the_command_line(method_files: Path) -> None:
    install(METHOD, method_files)
    entry = "from beacon.cli.main import entry; entry()"
    done = run(method_files, "-c", entry, "train", "--method", "fading", "--help-all")
    assert done.returncode == 0, done.stderr
    assert "--start" in done.stdout and "Share of the source at the beginning" in done.stdout
    assert "the method 'broken' (nowhere:Nothing) is left out" in done.stderr


def test_entry_points_of_parts_are_found_by_name(part_files: Path) -> None:
    install(PART, part_files)
    script = """
from beacon.methods import RECOMMENDED, AuxiliaryLoss
from beacon.plain import changed, from_plain, to_plain
chosen = changed(RECOMMENDED, {"discrepancy": "centroid", "checks": ["duration", "inverse-dynamics"]})
print(chosen.discrepancy, chosen.checks[0], from_plain(AuxiliaryLoss, "feature-norm"))
print(changed(RECOMMENDED, to_plain(chosen)) == chosen)
"""
    done = run(part_files, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Centroid(cap=100.0) DurationCheck(largest_factor=5.0) FeatureNorm(strength=0.001)",
        "True",
    ]
    assert "the auxiliary loss 'broken' (nowhere:Nothing) is left out" in done.stderr


def test_the_guide_names_what_a_method_has() -> None:
    """Every function that the guide says may be overridden exists, with these arguments."""
    calls = re.findall(r"`([a-z_]+)\(([a-z_, =]*)\)`", METHOD.read_text())
    assert {name for name, _ in calls} >= {"batches", "weights", "extra_loss", "between_epochs", "check"}
    for name, arguments in calls:
        parameters = [p for p in inspect.signature(getattr(Method, name)).parameters if p != "self"]
        assert [a.strip(" =") for a in arguments.split(",") if a.strip()] == parameters, name
    assert "fading" not in METHODS  # the guides ran in processes of their own


def test_the_guide_names_what_parts_have() -> None:
    import beacon.methods.auxiliary
    import beacon.weighting

    rows = re.findall(
        r"^\| .*? \| `(\w+)` \| (.*?) \| `(\w+)`, `([\w.]+)` \|$", PART.read_text(), re.MULTILINE
    )
    assert [row[0] for row in rows] == ["Discrepancy", "Check", "AuxiliaryLoss", "Solver"]
    for base, answers, registry, group in rows:
        home = beacon.methods.auxiliary if base == "AuxiliaryLoss" else beacon.weighting
        assert getattr(home, base).registry is getattr(home, registry)
        assert getattr(home, registry).group == group
        first, arguments = re.findall(r"`(\w+)\(([\w, ]*)\)`", answers)[0]
        parameters = list(inspect.signature(getattr(getattr(home, base), first)).parameters)
        assert parameters == ["self", *arguments.split(", ")]
