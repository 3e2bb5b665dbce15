from __future__ import annotations

import json
from pathlib import Path

import pytest

from beacon.cli import evaluate, generate
from beacon.errors import UserError


def test_generate_then_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lift.hdf5"
    assert generate.main(["lift", "--demos", "1", "--out", str(file), "--domain", "texture"]) == 0
    assert "1 demonstrations of 1 attempts (0 failed" in capsys.readouterr().out
    spec, out = "beacon.sim.policies:random_small", tmp_path / "result.json"
    options = ["--task", "lift", "--episodes", "2", "--region", "ood"]
    assert evaluate.main([spec, *options, "--out", str(out), "--compare", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "success  0 of 2 = 0.0%" in printed
    assert "McNemar's exact p = 1" in printed
    assert json.loads(out.read_text())["region"] == "ood"


def test_help_and_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--help"]) == 0
    assert evaluate.main(["--help"]) == 0
    capsys.readouterr()
    with pytest.raises(UserError, match="beacon generate: --out is missing"):
        generate.main(["lift"])
    with pytest.raises(UserError, match="there is no option --nonsense"):
        generate.main(["lift", "--nonsense"])
    with pytest.raises(UserError, match="name a task"):
        generate.main([])
    with pytest.raises(UserError, match="name a run folder"):
        evaluate.main([])
    with pytest.raises(UserError, match="no task 'juggle'"):
        generate.main(["juggle", "--out", str(tmp_path / "x.hdf5")])
    with pytest.raises(UserError, match="no run folder"):
        evaluate.main([str(tmp_path / "absent"), "--task", "lift"])


def test_seeds_below_zero_are_one_line(tmp_path: Path) -> None:
    out = tmp_path / "x.hdf5"
    with pytest.raises(UserError, match="--seed is -1; it must be at least 0"):
        generate.main(["lift", "--out", str(out), "--seed", "-1"])
    for option in ("--seed", "--policy-seed"):
        with pytest.raises(UserError, match=f"{option} is -1; it must be at least 0"):
            evaluate.main(["beacon.sim.policies:random_small", "--task", "lift", option, "-1"])
    assert list(tmp_path.iterdir()) == []
