from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beacon.cli.main import main


def test_the_demo_prints_a_table_and_draws_a_picture(tmp_path: Path, capsys) -> None:
    assert main(["demo", "--seeds", "1", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    correct = {
        name: int(n) for name, n in re.findall(r"(target-only|co-training|beacon)\s+│\s+(\d+)", printed)
    }
    assert set(correct) == {"target-only", "co-training", "beacon"}
    assert all(400 < n <= 747 for n in correct.values())
    right, wrong = (
        float(n) for n in re.findall(r"right label\s+(\d\.\d+).*?wrong label\s+(\d\.\d+)", printed, re.S)[0]
    )
    assert right > 5 * wrong
    picture = np.asarray(Image.open(tmp_path / "weights.png").convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100  # something was drawn
    assert [path.name for path in tmp_path.iterdir()] == ["weights.png"]


@pytest.mark.parametrize("seeds", ["0", "-1"])
def test_a_senseless_number_of_seeds_is_refused(seeds: str, tmp_path: Path, capsys) -> None:
    assert main(["demo", "--seeds", seeds, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"beacon: --seeds: at least 1 is needed, got {seeds}\n"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", "--seeds", "1", "--out", str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("beacon: cannot write") and error.count("\n") == 1
