"""``--target a --target b``: several datasets are one target domain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from demonstrations import make_dataset
from test_train_command import SMALL

from beacon.cli.main import main


@pytest.fixture
def datasets(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A source and two recordings of the target."""
    return (
        make_dataset(tmp_path / "sim.hdf5", 3, steps=6, seed=1),
        make_dataset(tmp_path / "monday.hdf5", 2, steps=6, seed=2),
        make_dataset(tmp_path / "tuesday.hdf5", 1, steps=6, seed=3),
    )


def test_both_are_trained_on_as_one_domain(
    tmp_path: Path, datasets: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, monday, tuesday = map(str, datasets)
    run = tmp_path / "run"
    data = ["--source", source, "--target", monday, f"--target={tuesday}"]
    assert main(["train", *data, "--out", str(run), *SMALL]) == 0
    records = json.loads((run / "data.json").read_text())
    assert [record["is_target"] for record in records] == [False, True]
    assert records[1]["demos"] == ["monday/demo_0", "monday/demo_1", "tuesday/demo_0"]
    card = yaml.safe_load((run / "target.yaml").read_text())
    assert card == {"path": [monday, tuesday]}
    # Everything that opens the data of a run again finds it.
    assert main(["train", *data, "--out", str(run), *SMALL, "--resume"]) == 0
    assert main(["verify", str(run)]) == 0
    capsys.readouterr()
    assert main(["train", *data, "--out", str(run), *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_rehearsal_writes_nothing(
    tmp_path: Path, datasets: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, monday, tuesday = map(str, datasets)
    before = sorted(tmp_path.iterdir())
    data = ["--source", source, "--target", monday, "--target", tuesday, "--dry-run"]
    assert main(["train", *data, "--out", str(tmp_path / "run"), *SMALL]) == 0
    assert "3 demonstrations" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before


def test_targets_that_make_no_domain(
    tmp_path: Path, datasets: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, monday, _ = map(str, datasets)
    narrow = str(make_dataset(tmp_path / "narrow.hdf5", 1, steps=6, action_dim=2))
    for targets, message in (
        ((monday, monday), "is given twice"),
        ((monday, str(tmp_path / "absent.hdf5")), "absent.hdf5 does not exist"),
        ((monday, narrow), "dimensions"),
    ):
        words = [word for target in targets for word in ("--target", target)]
        out = tmp_path / f"run-{len(message)}"
        assert main(["train", "--source", source, *words, "--out", str(out), *SMALL]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert not out.exists()
