"""Co-training at the ratio rule of arXiv 2604.13645."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from demonstrations import make_dataset
from tiny_runs import TINY_OPTIONS, metrics, tiny_config

from beacon.cli.main import main
from beacon.errors import UserError
from beacon.methods import CoTrainingOptions
from beacon.methods.cotrain import target_share_range
from beacon.runs import RunFolder
from beacon.training import Trainer


@pytest.mark.parametrize(
    ("target", "source", "low", "high"),
    [
        (10, 200, 10 / 210, math.sqrt(0.05)),
        (20, 500, 20 / 520, 0.2),
        (10, 30, 0.25, 0.5),  # √(1/3) is above one half
        (10, 5, 0.5, 0.5),
    ],
)
def test_the_range_is_from_the_natural_share_to_the_root_of_the_quotient(
    target: int, source: int, low: float, high: float
) -> None:
    assert target_share_range(target, source) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("word", "share"),
    # Twelve source and two target demonstrations, whatever their lengths.
    [("auto-low", 1 / 7), ("auto", math.sqrt(1 / 7 * math.sqrt(1 / 6))), ("auto-high", math.sqrt(1 / 6))],
)
def test_batches_have_the_share_of_the_rule(word, share: float, target: Path, tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "sim.hdf5", 12, steps=9, seed=1)
    config = tiny_config("cotrain", source, target, options=CoTrainingOptions(ratio=word), batch_size=64)
    method = Trainer(config, RunFolder(tmp_path / "run")).method
    drawn = np.concatenate([method.batches(epoch).ravel() for epoch in range(200)])
    of_target = np.isin(drawn, method.context.target_windows).mean()
    assert of_target == pytest.approx(share, abs=4 * math.sqrt(share / len(drawn)))
    report = method.between_epochs(0)
    assert report is not None and report.scalars["target_share"] == pytest.approx(share)
    assert report.scalars["source_share"] == pytest.approx(1 - share)
    assert method.between_epochs(1) is None


def test_what_was_chosen_is_said_and_kept(
    source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    size = [
        "--steps",
        "4",
        "--steps-per-epoch",
        "2",
        "--batch-size",
        "8",
        "--device",
        "cpu",
        "--no-tensorboard",
    ]
    data = ["--source", str(source), "--target", str(target), "--method", "cotrain", "--ratio", "auto"]
    assert main(["train", *data, "--out", str(run), *size, *TINY_OPTIONS]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    # Five source and two target demonstrations: 2/7 to 1/2.
    said = (
        "--ratio auto: 5 source and 2 target demonstrations, target share 0.378 of 0.286 to 0.500; the rule"
    )
    assert any(line.startswith(said) for line in captured.out.splitlines())
    (line,) = metrics(run, "refresh")
    assert line["target_share"] == pytest.approx(math.sqrt(2 / 7 / 2))


def test_a_plain_ratio_says_nothing(source: Path, target: Path, tmp_path: Path) -> None:
    method = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run")).method
    assert method.between_epochs(0) is None
    with pytest.raises(UserError, match=r"--ratio most: must be a number from 0 to 1, or natural, auto"):
        CoTrainingOptions(ratio="most")  # type: ignore[arg-type]
