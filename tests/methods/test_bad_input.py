"""What is wrong is said in one line, with exit code 2, before any training."""

from __future__ import annotations

from pathlib import Path

import pytest

from beacon.cli.main import main

SOURCE, OTHER, TARGET = ("--source", "{source}"), ("--source", "{other}"), ("--target", "{target}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "uot", *TARGET), "--method uot needs source demonstrations; say --source FILE"),
        (("--method", "mmd", *TARGET), "--method mmd needs source demonstrations; say --source FILE"),
        (("--method", "remix", *SOURCE), "--method remix needs target demonstrations; say --target FILE"),
        (("--method", "cotrain", "--ratio", "1.5", *SOURCE, *TARGET), "--ratio 1.5: must be"),
        (("--method", "mmd", "--ratio", "-0.5", *SOURCE, *TARGET), "--ratio -0.5: must be"),
        (("--method", "uot", "--ratio", "2", *SOURCE, *TARGET), "--ratio 2.0: must be"),
        (("--method", "uot", "--label", "elbow", *SOURCE, *TARGET), "--label elbow: there is no such"),
        (
            ("--method", "cotrain", "--match-run", "nowhere", *SOURCE, *TARGET),
            "--match-run nowhere: not a run",
        ),
        (("--lambda-2", "0", *SOURCE, *TARGET), "--lambda-2: must be above 0 for the minimiser"),
        (("--refresh-every", "0", *SOURCE, *TARGET), "--refresh-every 0: must be at least 1"),
        (("--proprio", "elbow", *SOURCE, *TARGET), "elbow"),
        (
            ("--steps-per-epoch", "500", *SOURCE, *TARGET),
            "no refresh in 1 epochs with 1 to warm up; take more --steps, --measurement sweep-all, or",
        ),
        (
            ("--loss-signal", "guess", *SOURCE, *TARGET),
            "--loss-signal guess: there is no loss signal 'guess'",
        ),
    ],
)
def test_one_clear_line(
    arguments: tuple[str, ...],
    message: str,
    source: Path,
    other_source: Path,
    target: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [a.format(source=source, other=other_source, target=target) for a in arguments]
    code = main(["train", *given, "--out", str(tmp_path / "run"), "--steps", "500"])
    complaint = capsys.readouterr().err.strip()
    assert code == 2
    assert message in complaint and len(complaint.splitlines()) == 1
    assert not (tmp_path / "run").exists()
