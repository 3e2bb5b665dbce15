"""decisions.jsonl: dropped demonstrations are left out; unknown names and damage are one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from raw_datasets import MakeFile

from beacon.cli.main import main
from beacon.data import open_dataset
from beacon.data.decisions import (
    DatasetDecisions,
    Decision,
    append_decision,
    read_decisions,
    read_lines,
    to_lines,
)
from beacon.errors import UserError


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


def record(demo: str, decision: Any, **more: str) -> Decision:
    return Decision("demos.hdf5", demo, decision, **more)


def test_an_undo_takes_back_what_it_names(tmp_path: Path) -> None:
    """One window drops, another keeps, the first takes its own decision back: the other's stands."""
    file = tmp_path / "decisions.jsonl"
    for line in (
        record("demo_0", "drop", id="a", who="anna"),
        record("demo_0", "keep", id="b", who="ben"),
        record("demo_0", "undo", undoes="a", who="anna"),
        record("demo_1", "drop", id="c"),
        record("demo_1", "repair", id="d"),
        record("demo_1", "undo"),
        record("demo_2", "note", note="look again", id="e"),
    ):
        append_decision(file, line)

    decided = {item.demonstration: item for item in read_decisions(file).decided}
    assert (decided["demo_0"].decision, decided["demo_0"].who) == ("keep", "ben")
    assert decided["demo_1"].decision == "drop"
    assert (decided["demo_2"].decision, decided["demo_2"].note) == (None, "look again")


WRITER = """
import sys
from pathlib import Path
from beacon.data.decisions import Decision, append_decision
for number in range(60):
    append_decision(Path(sys.argv[1]), Decision("demos.hdf5", f"demo_{number}", "drop", who=sys.argv[2]))
"""


def test_two_writers_lose_nothing_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), who]) for who in ("anna", "ben")]
    assert [writer.wait(120) for writer in writers] == [0, 0]

    lines = read_lines(file)
    for who in ("anna", "ben"):
        assert [line.demonstration for line in lines if line.who == who] == [f"demo_{n}" for n in range(60)]
    assert len(lines) == 120


def test_a_torn_last_line_is_left_out_and_mended(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    append_decision(file, record("demo_0", "drop"))
    with file.open("ab") as stream:
        stream.write(b'{"dataset": "demos.hdf5", "demonstr')

    assert [item.demonstration for item in read_decisions(file).decided] == ["demo_0"]
    append_decision(file, record("demo_1", "keep"))
    assert [line.demonstration for line in read_lines(file)] == ["demo_0", "demo_1"]


def test_a_whole_last_line_without_an_end_stays(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text('{"dataset": "demos.hdf5", "demonstration": "demo_0", "decision": "drop"}')
    append_decision(file, record("demo_1", "keep"))
    assert [line.demonstration for line in read_lines(file)] == ["demo_0", "demo_1"]


def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    append_decision(file, record("demo_0", "drop"))
    with file.open("ab") as stream:
        stream.write(b"{\n")
    append_decision(file, record("demo_1", "keep"))
    with pytest.raises(UserError, match="line 2"):
        read_decisions(file)


def test_decisions_about_other_datasets_alone_are_refused(
    make_file: MakeFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.jsonl"
    append_decision(file, Decision("elsewhere.hdf5", "demo_0", "drop"))
    source, out = make_file("demos.hdf5"), tmp_path / "out.hdf5"

    assert main(["data", "convert", str(source), str(out), "--decisions", str(file)]) == 2
    assert "about elsewhere.hdf5, not about demos.hdf5" in capsys.readouterr().err
    assert not out.exists()


def test_two_datasets_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "d.jsonl"
    append_decision(file, record("demo_0", "drop"))
    with pytest.raises(UserError, match="same name"):
        read_decisions(file).check({Path("a/demos.hdf5"): ["demo_0"], Path("b/demos.hdf5"): ["demo_0"]})


def test_what_a_run_wrote_says_the_same(tmp_path: Path) -> None:
    entries = (DatasetDecisions("demos.hdf5", ("demo_1",), ("demo_0", "demo_2")),)
    (tmp_path / "decisions.jsonl").write_bytes(to_lines(entries))
    names = ["demo_0", "demo_1", "demo_2"]
    assert read_decisions(tmp_path / "decisions.jsonl").for_training({Path("demos.hdf5"): names}) == entries
