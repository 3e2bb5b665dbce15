"""A package beside beacon adds a method, a task, an expert, a domain, a method variant and a suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py

PLUGIN = Path(__file__).parents[1] / "plugin"
COMMAND = "from beacon.cli.main import entry; entry()"


def beacon(
    *arguments: str, cwd: Path, plugin: bool = True, code: str = COMMAND
) -> subprocess.CompletedProcess[str]:
    path = [str(PLUGIN)] if plugin else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)])}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )


def test_parts_of_another_package_are_known_by_name(tmp_path: Path) -> None:
    done = beacon(
        *("generate", "raise-cube", "--domain", "evening", "--expert", "hasty", "--demos", "1"),
        *("--out", "cube.hdf5"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "cube.hdf5") as file:
        arguments = json.loads(file["data"].attrs["env_args"])
    assert arguments["env_name"] == "BeaconRaiseCube" and arguments["beacon"]["expert"] == "hasty"
    assert arguments["env_kwargs"]["domain"]["look"]["headlight"] == 0.15
    listed = beacon("suite", "list", "sim2sim", "--preset", "tiny", cwd=tmp_path).stdout
    usual = next(line for line in listed.splitlines() if line.startswith("--methods takes:"))
    others = next(line for line in listed.splitlines() if line.startswith("any other method"))
    assert "cotrain-0.25" in usual.split() and "half-and-half" in others.split()
    assert "evenings" in beacon("suite", "list", "--preset", "tiny", cwd=tmp_path).stdout
    code = (
        "import beacon.sim, gymnasium; print(gymnasium.make('beacon/RaiseCube-v0', domain='evening').spec.id)"
    )
    assert beacon(cwd=tmp_path, code=code).stdout.strip() == "beacon/RaiseCube-v0"
    without = beacon("generate", "raise-cube", "--out", "x.hdf5", cwd=tmp_path, plugin=False)
    assert without.returncode == 2 and "there is no task 'raise-cube'" in without.stderr


def test_they_enter_suites(tmp_path: Path) -> None:
    """The plug-in's method on its task and in its domain, in a suite of beacon's."""
    chosen = ["--preset", "tiny", "--seeds", "0", "--tasks", "raise-cube", "--gaps", "evening"]
    named = ["--methods", "half-and-half", "cotrain-0.25"]
    done = beacon("suite", "run", "sim2sim", *chosen, *named, cwd=tmp_path)
    assert done.returncode == 0 and "2 of 2 experiments are done" in done.stdout, done.stdout + done.stderr
    table = beacon("suite", "table", "sim2sim", *chosen, *named, "--markdown", cwd=tmp_path)
    assert "### raise-cube, evening" in table.stdout, table.stderr
    assert "| half-and-half | 2 |" in table.stdout and "| Co-training, 0.25 | 2 |" in table.stdout
    results = [json.loads(file.read_text()) for file in (tmp_path / "results" / "cells").iterdir()]
    assert {(r["configuration"]["method"], r["train_config"]["options"]["ratio"]) for r in results} == {
        ("half-and-half", 0.5),
        ("cotrain", 0.25),
    }
    # A domain of a user's own may change under its name: its parameters are part of the key.
    (evaluation,) = results[0]["configuration"]["evaluations"]
    assert evaluation["domain_parameters"]["look"]["headlight"] == 0.15
    # The plug-in's own suite has the same experiment: it is done.
    own = beacon("suite", "list", "evenings", "--preset", "tiny", "--seeds", "0", cwd=tmp_path)
    assert "1 done, 0 running, 1 missing" in own.stdout, own.stdout + own.stderr


def test_a_module_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mytask.py").write_text(
        "from beacon.sim.tasks.lift import Lift\n\n\n"
        "class Mine(Lift):\n    name = 'mine'\n    expert = 'mytask:Nobody'\n\n\n"
        "class Able(Lift):\n    name = 'able'\n"
    )
    done = beacon(
        "generate", "mytask:Able", "--demos", "2", "--workers", "2", "--out", "able.hdf5", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    wrong = beacon("generate", "mytask:Mine", "--demos", "1", "--out", "mine.hdf5", cwd=tmp_path)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1, wrong.stderr
    assert "cannot load the expert of mine 'mytask:Nobody'" in wrong.stderr
    for task, said in (
        ("mytask:Nobody", "cannot load the task 'mytask:Nobody'"),
        ("mytask:Lift.name", "cannot load the task"),
        ("json:dumps", "is not a subclass of beacon.sim.Task"),
    ):
        refused = beacon("generate", task, "--out", "x.hdf5", cwd=tmp_path)
        assert refused.returncode == 2 and said in refused.stderr and refused.stderr.count("\n") == 1
    unknown = beacon("generate", "lift", "--expert", "nobody", "--out", "x.hdf5", cwd=tmp_path)
    assert unknown.returncode == 2 and "there is no expert 'nobody'" in unknown.stderr
    assert not (tmp_path / "mine.hdf5").exists()
