"""Progress: told by who works, shown with the time left to who waits, and only where there is a wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from demonstrations import make_dataset
from tiny_runs import tiny_config

from beacon.cli.main import main
from beacon.progress import each, listening, tell
from beacon.progress_display import PlainLines, shown_progress
from beacon.training import train


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nobody_needs_to_listen() -> None:
    tell("reading", 1, 2)
    assert list(each([1, 2, 3], "counting")) == [1, 2, 3]


def test_listeners_hear_of_what_is_done_within_their_block() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *told: heard.append(told)):
        list(each("ab", "reading"))
    tell("reading", 9, 9)
    assert heard == [("reading", 0, 2), ("reading", 1, 2), ("reading", 2, 2)]


def test_lines_come_after_two_seconds_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = PlainLines(clock=clock)
    for done in range(101):
        clock.now = 0.1 * done
        lines("reading sim.hdf5", done, 100)
    for done in range(3):  # something else begins anew
        clock.now += 10
        lines("copying", done, 3)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "reading sim.hdf5: 20%, 8 s left" and len(shown) <= 2 + 9 + 2
    assert shown[-2:] == ["copying: 33%, 20 s left", "copying: 66%, 10 s left"]


def test_commands_that_read_demonstrations_tell_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("beacon.progress_display.PATIENCE", -1.0)
    data = make_dataset(tmp_path / "sim.hdf5", 4, steps=5, seed=1)
    for words, says in (
        (["data", "inspect", str(data)], "reading sim.hdf5: 50%"),
        (["data", "check", str(data)], "checking sim.hdf5: 50%"),
        (["data", "convert", str(data), str(tmp_path / "copy.hdf5")], "copying sim.hdf5: 50%"),
    ):
        assert main(words) == 0
        assert says in capsys.readouterr().err


def test_short_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as advance:
        advance("reading", 1, 2)
    assert capsys.readouterr().err == ""


def test_training_in_a_program_shows_the_time_left(
    source: Path,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("beacon.progress_display.PATIENCE", -1.0)
    config = tiny_config("cotrain", source, target)
    with shown_progress():
        train(config, tmp_path / "run")
    shown = capsys.readouterr().err
    assert "training cotrain: 50%, " in shown and " left" in shown
