"""Tables that a file declares before they are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beacon.cli.main import main
from beacon.suites.plan import read_plan
from beacon.suites.results import Folders
from beacon.suites.suite import experiments_of

TABLES = """
- suite: sim2sim
  about: both tables of one run
  preset: tiny
  seeds: [3]
  tasks: [lift]
  gaps: [texture]
  methods: [target-only]
- {suite: sim2sim, preset: tiny, states: validation, seeds: [3], tasks: [lift], gaps: [texture],
   methods: [target-only]}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def where(tmp_path: Path) -> list[str]:
    return ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]


def test_it_runs_what_is_declared_and_shows_how_much_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write(tmp_path, TABLES)
    shown = ["suite", "plan", str(plan), "--json", *where(tmp_path)]
    assert main(shown) == 0
    before = json.loads(capsys.readouterr().out)
    assert [table["done"] for table in before["tables"]] == [0, 0] and before["seconds_left"] > 0
    assert main(["suite", "plan", str(plan), "--run", "--workers", "1", *where(tmp_path)]) == 0
    assert "2 of 2 experiments are done" in capsys.readouterr().out
    assert main(shown) == 0
    after = json.loads(capsys.readouterr().out)
    assert [table["done"] for table in after["tables"]] == [1, 1] and after["seconds_left"] == 0
    assert after["tables"][0]["about"] == "both tables of one run"
    assert len(list((tmp_path / "work" / "runs").iterdir())) == 1  # trained once, judged from both states


def test_the_projects_own_plan_is_declared_in_the_order_of_work() -> None:
    tables = read_plan(Path(__file__).parents[2] / "results" / "plan.yaml")
    folders = Folders(Path("none"), Path("none"))
    assert all(table.about and experiments_of(table.entries(folders)) for table in tables)
    # Final tables have at least three seeds, none of which choices have seen.
    assert all(len(table.seeds) >= 3 and min(table.seeds) >= 10 for table in tables if table.states == "test")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a list of tables expected"),
        ("suite: sim2sim", "a list of tables expected"),
        ("- {seeds: [1]}", "table 1: suite: name one"),
        ("- {suite: sim2sim}", "table 1: seeds: name at least one"),
        ("- {suite: sim2sim, seeds: [-1]}", "table 1: seeds: name at least one, none below 0"),
        ("- {suite: sim2sin, seeds: [1]}", "sim2sin"),
        ("- {suite: sim2sim, seeds: [1], methods: [cotrian]}", "cotrian"),
        ("- {suite: sim2sim, seeds: [1], preset: huge}", "huge"),
        ("- {suite: sim2sim, seeds: [1], steps: 7}", "steps"),
        ("- {suite: sim2sim, seeds: many}", "seeds"),
        ("- [", "damaged"),
    ],
)
def test_a_wrong_plan_is_refused_in_one_line(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite", "plan", str(write(tmp_path, text)), "--run", *where(tmp_path)]) == 2
    said = capsys.readouterr()
    assert complaint in said.err and len(said.err.strip().splitlines()) == 1
    assert not (tmp_path / "results").exists()
