"""The suite ``pusht``: four columns a seed, recorded demonstrations, one line where they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from beacon.cli.main import main
from beacon.sim.pusht.recordings import FOLDER
from beacon.suites.definitions.pusht import PUSHT, sized
from beacon.suites.presets import PRESETS
from beacon.suites.suite import Choice, select_entries


def test_columns_and_demonstrations() -> None:
    entries = select_entries(PUSHT, PRESETS["cpu"], Choice(seeds=(0, 1), methods=("cotrain", "beacon")))

    assert [entry.detail for entry in entries[::2]][:4] == [
        "n=10, clean",
        "n=10, 30% corrupted",
        "n=20, clean",
        "n=20, 30% corrupted",
    ]
    first, last = entries[0].experiment, entries[-1].experiment
    assert (first.target.task, first.target.demos, first.target_demos) == ("pusht", 20, 10)
    assert (first.sources[0].task, first.sources[0].demos) == ("pusht-moved", 151)
    assert first.target.seed != last.target.seed and first.sources[0].seed == last.sources[0].seed
    assert not first.sources[0].corruptions
    assert sum(share for _, share in last.sources[0].corruptions) == pytest.approx(0.3)
    assert first.train_config(Path("data")).data.proprio == ("agent_pos",)
    assert sized(PRESETS["long"]).steps == 4 * sized(PRESETS["cpu"]).steps
    assert sized(PRESETS["tiny"]) is PRESETS["tiny"]


def test_without_the_data_it_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    command = ["suite", "run", "pusht", "--preset", "tiny", "--seeds", "0", "--methods", "target-only"]

    assert main([*command, "--workers", "1"]) == 1
    shown = capsys.readouterr()
    assert f"set {FOLDER} to its folder" in shown.out + shown.err
