"""``beacon evaluate --json``: what a program reads is JSON and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beacon.cli.main import main

RANDOM = "beacon.sim.policies:random_small"


def said(capfd: pytest.CaptureFixture[str], *words: str) -> Any:
    """What the command and the simulator below it print, as JSON; a number that is not finite is refused."""
    assert main(["evaluate", RANDOM, "--task", "lift", "--episodes", "2", *words, "--json"]) == 0

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(capfd.readouterr().out, parse_constant=refuse)


def test_evaluate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = tmp_path / "first.json"
    found = said(capfd, "--out", str(first))
    assert found["comparison"] is None and found["results"] == [json.loads(first.read_text())]
    rate = found["results"][0]["rates"]["success"]
    assert rate["episodes"] == 2 and rate["wilson_95"][0] <= rate["rate"] <= rate["wilson_95"][1]

    both = said(capfd, "--out", str(tmp_path / "second.json"), "--compare", str(first))
    assert [result["policy"] for result in both["results"]] == [RANDOM, RANDOM]
    assert both["comparison"]["success"]["difference"] == 0
