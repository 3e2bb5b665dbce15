from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.sim.rollout import pictures
from beacon.sim.world import World
from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders, read_result
from beacon.suites.suite import SUITES, Choice, experiments_of, select_entries


def command(folders: Folders, *arguments: str) -> list[str]:
    code = "from beacon.cli.main import entry; entry()"
    where = ["--work", str(folders.work), "--results", str(folders.results)]
    chosen = ["--preset", "tiny", "--tasks", "stack", "--seeds", "0", "--methods", "beacon"]
    return [sys.executable, "-c", code, "suite", *arguments, *chosen, *where]


def test_a_suite_interrupted_and_taken_up_again(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    (experiment,) = experiments_of(
        select_entries(SUITES["contaminated"], PRESETS["tiny"], Choice((0,), ("beacon",), ("stack",)))
    )
    process = subprocess.Popen(
        command(folders, "run", "contaminated"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    until = time.monotonic() + 600
    while not (folders.run(experiment) / "checkpoints" / "last").exists():  # in the middle of training
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 130 and "the same command goes on" in said and "Traceback" not in said
    assert not folders.is_done(experiment)
    data = {path: path.stat().st_mtime_ns for path in folders.data.glob("*.hdf5")}

    done = subprocess.run(
        command(folders, "run", "contaminated"), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and "1 of 1 experiments are done" in done.stdout, done.stdout + done.stderr
    assert data == {path: path.stat().st_mtime_ns for path in folders.data.glob("*.hdf5")}
    result = read_result(folders.result(experiment))
    (evaluation,) = result["evaluations"]
    assert evaluation["episodes"] == len(evaluation["outcomes"]["R"]) == 2
    assert set(result["weights"]["flaws"]) == {"none", *dict(experiment.sources[0].corruptions)}
    steps = [
        json.loads(line)["step"]
        for line in (folders.run(experiment) / "metrics.jsonl").read_text().splitlines()
        if json.loads(line)["kind"] == "train"
    ]
    assert steps == sorted(set(steps)) and steps[-1] == experiment.steps()

    table = subprocess.run(
        command(folders, "table", "contaminated", "--markdown"), capture_output=True, text=True, check=True
    )
    assert re.search(r"\| BEACON\+ \(ours\) \| 2 \| \d+% ", table.stdout) and "wrong-object" in table.stdout
    _check_corruptions(folders.data / experiment.sources[0].file_name)
    where = ["--work", str(folders.work), "--results", str(folders.results)]
    assert main(["suite", "list", "contaminated", "--preset", "tiny", "--methods", "beacon", *where]) == 0


def _check_corruptions(path: Path) -> None:
    """Every corruption is there and is what it says; the dataset can still be read."""
    names = EpisodeSet.load(path).episode_names
    world = World("stack", "source", "small")
    data = world.mujoco.MjData(world.model)
    with h5py.File(path) as file:
        assert file["data"].attrs["total"] == sum(len(demo["actions"]) for demo in file["data"].values())
        corruptions = {name: str(file["data"][name].attrs["flaw"]) for name in names}
        assert Counter(corruptions.values())["none"] == 5 and len(set(corruptions.values())) == 6
        for name, corruption in corruptions.items():
            demo = file["data"][name]
            data.qpos[:] = demo["states"][-1, 1 : 1 + world.model.nq]
            world.mujoco.mj_kinematics(world.model, data)
            a, b = (world.pose(data, cube)[2, 3] for cube in ("cubeA", "cubeB"))
            assert (b > a) == (corruption == "wrong-object")
            # All but one corruption are seen by the domain's own camera.
            own = pictures(world, demo["states"][:1], int(demo.attrs["seed"]))[0].astype(int)
            seen = demo["obs"]["agentview_image"][0]
            assert (np.abs(own - seen).mean() > 1) == (corruption == "other-camera")
    world.close()
