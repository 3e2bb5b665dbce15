"""One finished run of BEACON on demonstrations with placements and known corruption."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from tiny_runs import one_thread, other_source, source, target, tiny_config

from beacon.training import train

__all__ = ["one_thread", "other_source", "source", "target"]

CORRUPTION = ["none", "delayed", "none", "mirrored", "none"]


@pytest.fixture(scope="session")
def finished(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs; its source says which demonstrations are corrupted, and where objects were."""
    folder = tmp_path_factory.mktemp("finished")
    labelled = {}
    for path in (source, target):
        labelled[path.stem] = Path(shutil.copy(path, folder))
        with h5py.File(labelled[path.stem], "r+") as file:
            for number, name in enumerate(sorted(file["data"])):
                x = 0.12 * number + 0.02 if path.stem == "sim" else 0.1 * number
                file["data"][name].attrs["placements"] = json.dumps({"cube": [x, 0.0, 1.0]})
                if path.stem == "sim":
                    file["data"][name].attrs["flaw"] = CORRUPTION[number]
    train(tiny_config("beacon", labelled["sim"], labelled["real"]), folder / "run")
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def half(finished: Path, tmp_path: Path) -> Callable[[], Path]:
    """Copies of it as if cut off after the second of three checkpoints."""

    def cut() -> Path:
        copy = Path(shutil.copytree(finished, tmp_path / "half"))
        shutil.rmtree(copy / "checkpoints" / "00000006")
        (copy / "checkpoints" / "last").write_text("00000004\n")
        return copy

    return cut
