"""``--json``: what a program reads is JSON and nothing else, and says what the tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY_OPTIONS, tiny_config

from beacon.cli.main import main
from beacon.training import train


@pytest.fixture(scope="module")
def run(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "beacon"
    train(tiny_config("beacon", source, target), path)
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """What a command prints, as JSON; a number that is not finite is refused."""
    assert main([*words, "--json"]) == code

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_weights(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "weights", str(run), "--export", str(tmp_path / "weights.parquet"))
    weights = [demo["weight"] for demo in found["demonstrations"]]
    assert weights == sorted(weights, reverse=True) and len(weights) > 2
    assert sum(domain["share"] for domain in found["domains"]) == pytest.approx(1)
    assert [domain["is_target"] for domain in found["domains"]] == [False, True]


def test_verify(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "verify", str(run))
    assert found["fits"] is True and set(found["complaints"]) >= {"data", "checkpoints", "weights"}


def test_data(source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "data", "inspect", str(source))
    assert found["frames"] == sum(found["demonstrations"].values())
    assert found["arrays"]["actions"]["demonstrations"] == len(found["demonstrations"])
    assert said(capsys, "data", "check", str(source), str(target))["errors"] == 0
    (tmp_path / "damaged.hdf5").write_bytes(b"nothing")
    broken = said(capsys, "data", "check", str(tmp_path / "damaged.hdf5"), code=2)
    assert broken["errors"] == 1 and broken["findings"][0]["severity"] == "error"


def test_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert main(["report", str(run), "--out", str(out), "--map", "pca", "--json"]) == 0
    found = json.loads((tmp_path / "page.json").read_text())
    assert [entry["method"] for entry in found["runs"]] == ["beacon"]
    assert 0 < found["runs"][0]["weights"]["source_share"] < 1
    assert "learning" in found["figures"] and found["success"] == []


def test_dry_run(source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--source", str(source), "--target", str(target), "--steps", "4", "--steps-per-epoch", "2"]
    found = said(capsys, "train", *options, *TINY_OPTIONS, "--batch-size", "8", "--dry-run")
    assert found["parameters"] > 0 and found["seconds"] > 0
    assert main(["train", *options, *TINY_OPTIONS, "--out", str(tmp_path / "run"), "--json"]) == 2
    assert "--dry-run" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_suites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    every = said(capsys, "suite", "list", *folders)
    one = said(capsys, "suite", "list", "scaling", *folders)
    (row,) = [entry for entry in every["suites"] if entry["suite"] == "scaling"]
    assert row["experiments"] == len(one["experiments"]) and row["done"] == 0
    assert {entry["state"] for entry in one["experiments"]} == {"missing"}
