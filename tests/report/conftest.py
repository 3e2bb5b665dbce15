"""Runs and pages are made once: training and browsers cost seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Browser, find_browser
from report_runs import make_demonstrations, train_run, write_evaluation

from beacon.report import Report, write_report

METHODS = ("target-only", "cotrain", "beacon")
SUCCESSES = {"target-only": 4, "cotrain": 7, "beacon": 20}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sim.hdf5 (5 of 14 demonstrations mirrored), real.hdf5 and a run of each method."""
    folder = tmp_path_factory.mktemp("runs")
    source = make_demonstrations(folder / "sim.hdf5", 14, corrupted=5)
    target = make_demonstrations(folder / "real.hdf5", 4, seed=1, background=(120, 90, 60))
    for method in METHODS:
        train_run(folder / method, method, [source], target, validation=target)
        write_evaluation(folder / method, [int(i < SUCCESSES[method]) for i in range(24)])
    return folder


@pytest.fixture(scope="session")
def page(trained: Path) -> tuple[Path, Report]:
    """The comparison of all three."""
    out = trained / "report.html"
    return out, write_report([trained / method for method in METHODS], out, projection="pca")


@pytest.fixture
def copy_run(trained: Path, tmp_path: Path) -> Callable[..., Path]:
    """A run of one's own to damage."""

    def copy(method: str = "beacon") -> Path:
        return Path(shutil.copytree(trained / method, tmp_path / method))

    return copy


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("no Chromium; Debian: apt-get install chromium")
    with Browser() as found:
        yield found
