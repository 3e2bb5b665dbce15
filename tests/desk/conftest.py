"""Demonstrations, an audit and a run of them are made once; every test has a desk of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import point_robot as robot
import pytest
from browser import Browser, find_browser
from desk_servers import DEMOS, OpenDesk, serving
from report_runs import train_run

from beacon.cli.main import main
from beacon.desk.annotations import Sources
from beacon.desk.server import DeskServer


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sim.hdf5 with mirrored actions and one frozen camera, real.hdf5, their audit, and a run on both."""
    folder = tmp_path_factory.mktemp("desk")
    demos = robot.demonstrations(DEMOS, seed=31)
    robot.corrupted(demos[:-1], robot.mirrored(0), 0.2)
    robot.corrupted(demos[-1:], robot.frozen, 1.0)
    source = robot.write(folder / "sim.hdf5", demos)
    target = robot.write(folder / "real.hdf5", robot.demonstrations(6, seed=32))
    files = ["--source", str(source), "--target", str(target)]
    assert main(["audit", *files, "--out", str(folder / "audit")]) == 0
    train_run(folder / "run", "beacon", [source], target)
    return folder


@pytest.fixture
def open_desk(folder: Path, tmp_path: Path) -> Iterator[OpenDesk]:
    """A desk with audit and run; ``sources`` opens it on something else."""
    with ExitStack() as stack:

        def start(sources: Sources | None = None, who: str = "anna") -> DeskServer:
            chosen = sources or Sources((), folder / "audit", folder / "run")
            return stack.enter_context(serving(chosen, tmp_path / "decisions.jsonl", who))

        yield start


@pytest.fixture(scope="session")
def one_browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("no Chromium; Debian: apt-get install chromium")
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    one_browser.complaints.clear()
    one_browser.requests.clear()
    one_browser.prefer("light")
    one_browser.resize(1280, 900)
    yield one_browser
    one_browser.leave()
