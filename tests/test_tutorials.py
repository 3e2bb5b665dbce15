"""Tutorials, the notebook and the guides do what they say: their code and commands are run."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from tiny_runs import TINY_OPTIONS

from beacon.cli.main import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# What makes a run of a tutorial one of seconds.
SMALL = [
    *("--steps", "4", "--steps-per-epoch", "2", "--batch-size", "8", "--device", "cpu", "--no-tensorboard"),
    *TINY_OPTIONS,
]
NEVER_ENDS = {"serve"}


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of the code blocks that a page asks its readers to run."""
    yield from re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def follow(page: Path, folder: Path) -> list[str]:
    """Do what a page says, in a folder; gives back the commands that were run."""
    names: dict[str, Any] = {}
    commands = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for language, text in blocks(page):
            if language == "python":
                exec(compile(text, str(page), "exec"), names)
                continue
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                if not words or words[0] != "beacon" or words[1] in NEVER_ENDS:
                    continue
                more = SMALL if words[1] == "train" else []
                assert main([*words[1:], *more]) == 0, line
                commands.append(" ".join(words[1:3]))
    return commands


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first tutorial has been followed; the others go on from there."""
    folder = tmp_path_factory.mktemp("tutorial")
    commands = follow(DOCS / "tutorials" / "own-data.md", folder)
    assert len(commands) == 7
    return folder


def test_own_data(workspace: Path) -> None:
    for run in ("beacon", "cotrain"):
        assert (workspace / "runs" / run / "checkpoints" / "last").exists()
    assert (workspace / "best.hdf5").exists() and (workspace / "weights.parquet").exists()


def test_weights_for_others(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(DOCS / "tutorials" / "weights-for-others.md", workspace) == ["weights runs/beacon"]
    assert "'weight'" in capsys.readouterr().out


def test_policy_to_robot(workspace: Path) -> None:
    assert follow(DOCS / "tutorials" / "policy-to-robot.md", workspace) == ["export runs/beacon"]
    assert (workspace / "policies" / "reach" / "policy.safetensors").exists()


def test_extend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow(DOCS / "tutorials" / "extend.md", tmp_path)
    out = capsys.readouterr().out
    assert "['demo_0'] 9 ['state']" in out and "headlight=0.15" in out
    assert "raise-cube 60 ['cube']" in out


def notebook_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_reweighter", DOCS / "notebooks" / "make_reweighter.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_is_what_its_script_writes_and_its_cells_run() -> None:
    maker = notebook_maker()
    stored = nbformat.read(maker.NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    assert [(cell.cell_type, cell.source) for cell in stored.cells] == maker.CELLS
    executed, _, pictures, names = maker.notebook_and_page()
    assert all((maker.PICTURES / name).exists() for name in pictures)
    assert [len(cell.get("outputs", [])) for cell in executed.cells] == [
        len(cell.get("outputs", [])) for cell in stored.cells
    ]
    assert names["auc"] > 0.8
    assert names["errors"]["BEACON's weights"] < 0.5 * names["errors"]["uniform weights"]


def test_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    page = (DOCS / "guides" / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    # Literals that are broken over lines are joined, and what is filled in becomes the page's sign for it.
    sources = "\n".join(file.read_text() for file in sorted((ROOT / "src").rglob("*.py")))
    joined = re.sub(r"\"\s*\n?\s*f?\"", "", sources)
    joined = re.sub(r"\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}", "…", joined)
    missing = [message for message in messages if message not in joined]
    assert not missing


def test_the_readmes_loop_runs() -> None:
    import numpy as np
    import torch

    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "Reweighter" in block]
    rng = np.random.default_rng(0)
    episodes = np.repeat(np.arange(10), 6)
    names: dict[str, Any] = {
        "episodes": episodes,
        "domains": np.where(episodes < 7, "sim", "real"),
        "epochs": 2,
        "action_chunks": rng.normal(size=(60, 4)),
        "per_sample_losses": lambda: rng.uniform(size=60),
        "features": lambda: rng.normal(size=(60, 5)),
        "batches": lambda: torch.arange(60).split(20),
        "policy_loss": lambda index: torch.ones(len(index)),
    }
    exec(code, names)
    assert names["rw"].refresh_count == 2 and torch.isfinite(names["loss"])
