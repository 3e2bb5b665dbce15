"""decisions.jsonl: dropped demonstrations are left out; unknown names and damage are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from raw_datasets import MakeFile

from beacon.cli.main import main
from beacon.data import open_dataset
from beacon.data.decisions import read_decisions


def decide(file: Path, *decisions: tuple[str, str]) -> Path:
    lines = [
        {"dataset": "demos.hdf5", "demonstration": demo, "decision": decision, "who": "me"}
        for demo, decision in decisions
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_dropped_demonstrations_are_not_converted(make_file: MakeFile, tmp_path: Path) -> None:
    source, out = make_file("demos.hdf5"), tmp_path / "out.hdf5"
    file = decide(tmp_path / "d.jsonl", ("demo_1", "drop"), ("demo_2", "drop"), ("demo_2", "undo"))

    assert main(["data", "convert", str(source), str(out), "--decisions", str(file)]) == 0
    with open_dataset(out) as reader:
        assert reader.episode_names == ["demo_0", "demo_2"]


def test_the_last_decision_counts(tmp_path: Path) -> None:
    file = decide(tmp_path / "d.jsonl", ("demo_0", "drop"), ("demo_0", "keep"))
    decisions = read_decisions(file)

    assert decisions.names(Path("x/demos.hdf5"), "drop", ["demo_0"]) == set()
    assert decisions.names(Path("x/demos.hdf5"), "keep", ["demo_0"]) == {"demo_0"}
    assert decisions.names(Path("other.hdf5"), "keep", []) == set()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"dataset": 1}', '{"dataset": "demos.hdf5", "demonstration": "demo_9", "decision": "drop"}'],
)
def test_bad_files_are_one_line(
    text: str, make_file: MakeFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, file = make_file("demos.hdf5"), tmp_path / "out.hdf5", tmp_path / "d.jsonl"
    file.write_text(text)

    assert main(["data", "convert", str(source), str(out), "--decisions", str(file)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not out.exists()
