"""Imports go one way: who may know whom is a list here, and what breaks it is listed until it is mended.

From above to below: cli, demo, suites, report, training, serving and desk, methods, audit, weighting and
policy, runs, analysis, data, base. A package may import all that are below it. Two on one level do not know
each other.
`sim` stands aside: it knows policy, analysis, data and base, and only suites, demo and cli know it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "beacon"

LEVELS = (
    (
        "devices",
        "errors",
        "files",
        "local_server",
        "option_words",
        "plain",
        "processes",
        "progress",
        "progress_display",
        "randomness",
        "ranges",
        "registry",
        "yaml_files",
    ),
    ("data",),
    ("analysis",),
    ("runs",),
    ("weighting", "policy"),
    ("audit",),
    ("methods",),
    ("training", "serving", "integrations", "desk"),
    ("report",),
    ("suites",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
BASE = LEVELS[0]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
SIM_KNOWS = {"policy", "analysis", "data", *BASE}
KNOW_SIM = {"suites", "demo", "cli"}
# Who uses only what the package's __init__ offers, and of whom.
ONLY_OFFERED = {("suites", "report"), ("demo", "report"), ("cli", "report")}

# (importing module, imported module): why it is still so. Mended ones must be taken out.
KNOWN: dict[tuple[str, str], str] = {}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


NAMES = {name for name, _ in modules()}


def imported(path: Path) -> set[str]:
    """Modules of beacon that a file imports, also inside functions; a name that is a module counts as it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path}: relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name.removeprefix("beacon.") in NAMES else node.module for name in inner}
            # What the root offers hides where it comes from.
            assert node.module != "beacon" or inner <= {"beacon.__version__", *names}, f"{path}: {inner}"
    return {name.removeprefix("beacon.") for name in names if name.startswith("beacon.")}


def package(module: str) -> str:
    return module.split(".")[0]


def allowed(importer: str, target: str) -> bool:
    a, b = package(importer), package(target)
    if a == b:
        return True
    if a == "sim":
        return b in SIM_KNOWS
    if b == "sim":
        return a in KNOW_SIM
    if (a, b) in ONLY_OFFERED and target != b:
        return False
    return LEVEL[b] < LEVEL[a] or (a in BASE and b in BASE)


def edges() -> list[tuple[str, str]]:
    return [(name, other) for name, path in modules() if name for other in sorted(imported(path))]


def test_every_package_has_its_level() -> None:
    assert {package(name) for name in NAMES if name} <= {*LEVEL, "sim"}


def test_imports_go_one_way() -> None:
    broken = {edge for edge in edges() if not allowed(*edge)}
    assert broken - set(KNOWN) == set(), "imports that go the wrong way"


def test_known_violations_are_still_there() -> None:
    broken = {edge for edge in edges() if not allowed(*edge)}
    assert set(KNOWN) - broken == set(), "mended: take them out of KNOWN"
    assert all(KNOWN.values()), "each says why"


@pytest.mark.parametrize(
    ("importer", "target", "answer"),
    [
        ("report.build", "training.config", True),
        ("training.trainer", "report.build", False),
        ("report.success", "sim.evaluate", False),
        ("sim.evaluate", "analysis", True),
        ("sim.evaluate", "training", False),
        ("weighting.reweighter", "policy.config", False),
        ("runs.run", "methods", False),
        ("analysis.weights", "runs.run", False),
        ("suites.figures", "report", True),
        ("suites.figures", "report.figure_spec", False),
        ("plain", "registry", True),
        ("errors", "data.episodes", False),
    ],
)
def test_the_order(importer: str, target: str, answer: bool) -> None:
    assert allowed(importer, target) == answer


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import numpy\nfrom beacon import __version__\nfrom beacon.runs import run, RunFolder\n"
        "def f():\n    import beacon.sim.evaluate\n    from beacon.data.errors import listing\n"
        "import beaconlike\nfrom beaconlike.x import y\n"
    )
    assert imported(file) == {"runs", "runs.run", "sim.evaluate", "data.errors"}
