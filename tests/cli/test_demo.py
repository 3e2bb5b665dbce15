from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

from beacon.cli.main import main
from beacon.demo import DemoPlan


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from beacon.cli.main import entry; entry()", "demo", *arguments]


def test_the_whole_demo_interrupted_and_taken_up_again(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    process = subprocess.Popen(
        demo("--quick", "--workers", "2", "--out", str(out)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + 600
    while not list(out.glob("*/checkpoints/last")):  # in the middle of training
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 130 and "the same command goes on" in said
    target = (out / "data" / "target.hdf5").stat().st_mtime_ns

    # With another number of workers: it changes nothing but the time.
    done = subprocess.run(
        demo("--quick", "--workers", "1", "--out", str(out)), capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert (out / "data" / "target.hdf5").stat().st_mtime_ns == target  # not made again
    rows = dict(re.findall(r"(target-only|cotrain|beacon)\s+│\s+(\d+) │", done.stdout))
    assert set(rows) == {"target-only", "cotrain", "beacon"}
    assert "within noise" in done.stdout and f"the report: {out / 'report.html'}" in done.stdout
    states = set()
    for method, successes in rows.items():
        (file,) = (out / method / "eval").glob("*.json")
        result = json.loads(file.read_text())
        assert result["rates"]["success"]["successes"] == int(successes)
        states.add(result["initial_states"]["sha256"])
        steps = [
            json.loads(line)["step"] for line in (out / method / "metrics.jsonl").read_text().splitlines()
        ]
        assert max(steps) == DemoPlan.quick().steps
    assert len(states) == 1
    html = (out / "report.html").read_text()
    assert "mirrored" in html and "delayed" in html and "data:image/jpeg" in html
    with h5py.File(out / "data" / "source.hdf5") as file:
        flaws = [file["data"][name].attrs["flaw"] for name in file["data"]]
    assert sorted(flaws) == ["delayed", "delayed", "mirrored", "none", "none", "none"]

    other = subprocess.run(demo("--quick", "--seed", "1", "--out", str(out)), capture_output=True, text=True)
    assert other.returncode == 2 and "holds a demo with other settings" in other.stderr


def test_methods_differ_in_nothing_but_the_method() -> None:
    configs = [DemoPlan().train_config(m, Path("data")) for m in ("target-only", "cotrain", "beacon")]
    assert len({config.policy for config in configs}) == 1
    assert len({config.optimization for config in configs}) == 1
    assert len({config.data.target for config in configs}) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], "--workers 0: must be at least 1"),
        (["--seed", "-1"], "--seed -1: must be at least 0"),
    ],
)
def test_senseless_options_are_refused(arguments: list[str], said: str, tmp_path: Path, capsys) -> None:
    assert main(["demo", *arguments, "--out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", "--quick", "--out", str(tmp_path / "file" / "demo")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("beacon: cannot write") and error.count("\n") == 1
