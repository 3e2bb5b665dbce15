"""What a release promises: one version, and no code that runs what a data file says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import beacon
from beacon.yaml_files import _LimitedLoader as LIMITED

ROOT = Path(__file__).parent.parent
FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def unsafe(source: str) -> Iterator[str]:
    """Calls and imports in a source text by which data could run code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN:
            yield str(node.module)
        elif isinstance(node, ast.Call) and _is_unsafe(node):
            yield ast.unparse(node.func)


def _is_unsafe(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    said = {word.arg: ast.unparse(word.value) for word in call.keywords}
    if called == "torch.load":
        return said.get("weights_only") != "True"
    if called in ("np.load", "numpy.load"):
        return said.get("allow_pickle", "False") != "False"
    if called == "yaml.load":
        return said.get("Loader") != LIMITED.__name__
    return called in ("yaml.unsafe_load", "yaml.full_load")


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "np.load(f, allow_pickle=True)",
        "yaml.load(f)",
    ],
)
def test_what_is_unsafe_is_seen(source: str) -> None:
    assert list(unsafe(source))


def test_no_source_runs_code_from_data() -> None:
    assert issubclass(LIMITED, yaml.SafeLoader)
    folders = [ROOT / "src", ROOT / "lerobot_policy_beacon" / "src"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 100
    assert {str(file): seen for file in files if (seen := list(unsafe(file.read_text())))} == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what it is made of."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_text((ROOT / name).read_text())
    subprocess.run(["cp", "-r", ROOT / "src", copy / "src"], check=True)
    build = "from setuptools.build_meta import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return file


def test_the_wheel_has_the_version_and_everything_and_runs_no_code_from_data(wheel: Path) -> None:
    assert wheel.name.startswith(f"beacon_cotraining-{beacon.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        sources = {name: archive.read(name).decode() for name in names if name.endswith(".py")}
    here = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src" / "beacon").rglob("*.py")}
    assert here == set(sources)
    assert "beacon/py.typed" in names and any(name.startswith("beacon/report/page/") for name in names)
    assert not any(list(unsafe(text)) for text in sources.values())


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"] and "version" not in project
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == beacon.__version__
    assert citation["license"] == "Apache-2.0" and citation["cff-version"] == "1.2.0"


def test_the_changelog_is_in_the_usual_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "[Unreleased]"
    sections = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_release_workflow_knows_where_the_version_is() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    steps = {step.get("name"): step.get("run", "") for step in workflow["jobs"]["build"]["steps"]}
    done = subprocess.run(
        ["bash", "-c", steps["The tag is the version"]],
        cwd=ROOT,
        env={"GITHUB_REF_NAME": f"v{beacon.__version__}", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0
    assert "scripts/smoke-test-wheel.sh" in "".join(steps.values())
    assert (ROOT / "scripts" / "smoke-test-wheel.sh").stat().st_mode & 0o100


def test_the_oldest_versions_are_those_of_the_project() -> None:
    script = ROOT / "scripts" / "minimal_versions.py"
    done = subprocess.run([sys.executable, script, "serve"], capture_output=True, text=True, check=True)
    pins = dict(line.split("==") for line in done.stdout.splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    assert {f"{name}>={version}" for name, version in pins.items()} == {
        requirement.split(",")[0] for requirement in required
    }


def test_declared_pythons_are_those_that_are_tested() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    readme = (ROOT / "README.md").read_text()
    assert declared == ["3.11", "3.12", "3.13"] and ", ".join(declared) in readme


def test_what_other_pythons_leave_out_exists() -> None:
    for line in (ROOT / "scripts" / "tests-of-simulation.txt").read_text().splitlines():
        file, _, test = line.partition("::")
        assert (ROOT / file).exists(), line
        assert not test or f"def {test}(" in (ROOT / file).read_text(), line
