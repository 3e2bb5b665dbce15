from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from small_experiments import SOURCE, contested, matched, small_experiment, with_data

from beacon.cli.main import main
from beacon.methods import RECOMMENDED
from beacon.processes import Processes
from beacon.suites.experiment import Experiment
from beacon.suites.locks import is_held, trying
from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders, read_result
from beacon.suites.run_experiment import BUSY, DONE, Assignment, run_experiment
from beacon.suites.runner import Outcome, run_experiments
from beacon.suites.suite import SUITES, Choice, experiments_of, select_entries

HERE = Path(__file__).parent


def competitor(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])}
    command = [sys.executable, str(HERE / "small_experiments.py"), str(folder)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def silent(*_: object) -> None:
    return


def run(experiments: list[Experiment], folders: Folders, workers: int = 1) -> Outcome:
    with Processes(workers) as processes:
        return run_experiments(experiments, folders, processes)


def test_two_processes_share_the_experiments_and_do_none_twice(tmp_path: Path) -> None:
    folders = with_data(tmp_path)
    said = [process.communicate(timeout=900) for process in [competitor(tmp_path) for _ in range(2)]]
    assert not any("Traceback" in error for _, error in said), said
    wanted = {experiment.key for experiment in contested()}
    done = [line.split()[1] for out, _ in said for line in out.splitlines() if line.startswith("done")]
    assert sorted(done) == sorted(wanted)
    assert {path.stem for path in (folders.results / "cells").iterdir()} == wanted


def test_a_killed_experiment_goes_on_in_the_middle_of_its_training(tmp_path: Path) -> None:
    folders = with_data(tmp_path)
    experiment = small_experiment("cotrain", 200)
    metrics, last = (
        folders.run(experiment) / "metrics.jsonl",
        folders.run(experiment) / "checkpoints" / "last",
    )
    with Processes(1) as processes:
        processes.start("experiment", run_experiment, Assignment(experiment, folders.resolved()))
        until = time.monotonic() + 600
        while not last.exists():
            assert time.monotonic() < until and not [e for e in processes.events() if e.kind == "failed"]
            time.sleep(0.01)
        assert folders.state(experiment) == "running"
    assert folders.state(experiment) == "missing"  # the process is dead, and has let go
    step = int(last.read_text())
    assert 0 < step < 200
    before = [json.loads(line) for line in metrics.read_text().splitlines()]
    kept = [entry for entry in before if entry["kind"] == "train" and entry["step"] <= step]

    # In a folder of another name: nothing that matters knows where it is.
    moved = Folders(tmp_path / "moved", folders.results)
    folders.work.rename(moved.work)
    assert run([experiment], moved).done == 1
    after = [json.loads(line) for line in (moved.run(experiment) / "metrics.jsonl").read_text().splitlines()]
    # The speeds would differ if those steps had been taken again.
    assert [entry for entry in after if entry["kind"] == "train"][: len(kept)] == kept and kept
    assert max(entry["step"] for entry in after) == 200
    assert read_result(moved.result(experiment))["configuration"] == experiment.configuration()


def test_a_dead_parent_is_not_outlived(tmp_path: Path) -> None:
    folders = with_data(tmp_path)
    process = competitor(tmp_path)
    first = contested()[0]
    until = time.monotonic() + 600
    while not is_held(folders.lock(first)):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while is_held(folders.lock(first)):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_what_a_result_says(tmp_path: Path) -> None:
    folders = with_data(tmp_path)
    beacon = small_experiment("beacon")
    control = matched(beacon)
    assert run([control, beacon], folders, workers=2) == Outcome(2, {}, 0)  # the control waits its turn
    result = read_result(folders.result(beacon))
    weights = result["weights"]
    assert result["key"] == beacon.key and result["seconds"]["training"] > 0
    assert result["machine"]["threads"] == 1 and result["versions"]["torch"]
    assert result["machine"]["device"] in ("cpu", "cuda")
    assert sum(one["mass"] for one in weights["domains"].values()) == pytest.approx(1)
    roles = {one["role"]: one for one in weights["domains"].values()}
    assert weights["source_mass"] == pytest.approx(roles["source"]["mass"])
    # 4 source and 2 target demonstrations of 12 windows, budget n + alpha m.
    total = sum(one["mean"] * one["windows"] for one in roles.values())
    assert total == pytest.approx(24 + RECOMMENDED.weighting.alpha * 48, rel=1e-4)
    assert 1 <= weights["effective_source_samples"] <= 48
    matching = read_result(folders.result(control))
    assert matching["train_config"]["options"]["ratio"] == weights["mean_source_mass"]
    steps = small_experiment("beacon-paper")
    assert run([steps], folders) == Outcome(1, {}, 0)
    gains = read_result(folders.result(steps))["weights"]  # the target's weights, in small steps
    assert gains["source_mass"] < gains["mean_source_mass"]
    assert matching["weights"] is None and str(tmp_path) not in folders.result(beacon).read_text()
    assert folders.result(beacon).stat().st_size < 30_000
    assert not list(folders.run(beacon).glob("checkpoints/*/optimizer.safetensors"))

    # Another look at the same run does not train again.
    looked = small_experiment("beacon", align=True)
    trained = (folders.run(beacon) / "metrics.jsonl").stat().st_mtime_ns
    assert run([looked], folders).done == 1
    assert (folders.run(beacon) / "metrics.jsonl").stat().st_mtime_ns == trained
    found = read_result(folders.result(looked))["alignment"]
    assert set(found["map"]) == {"vision", "observation"}
    assert sorted(set(found["target"])) == [0, 1]
    assert len(found["map"]["vision"]["x"]) == len(found["target"])
    assert 0 <= found["numbers"]["vision"]["after"]["auc"] <= 1


def test_an_experiment_that_fails_stops_only_those_that_wait_for_it(tmp_path: Path) -> None:
    folders = with_data(tmp_path)
    (folders.data / SOURCE.file_name).write_bytes(b"not a dataset")
    broken, fine = small_experiment("beacon"), small_experiment("target-only")
    outcome = run([broken, matched(broken), fine], folders, workers=2)
    assert (outcome.done, list(outcome.failed), outcome.blocked) == (1, [broken.key], 1)
    assert SOURCE.file_name in outcome.failed[broken.key]


def test_an_experiment_that_another_holds_is_left_alone(tmp_path: Path) -> None:
    folders = with_data(tmp_path).resolved()
    experiment = small_experiment()
    with trying(folders.lock(experiment)) as free:
        assert free and folders.state(experiment) == "running"
        assert run_experiment(Assignment(experiment, folders), silent) == BUSY
        assert not folders.run(experiment).exists()
    assert run_experiment(Assignment(experiment, folders), silent) == DONE
    written = folders.result(experiment).stat().st_mtime_ns
    assert run_experiment(Assignment(experiment, folders), silent) == DONE
    assert folders.result(experiment).stat().st_mtime_ns == written


def test_a_ray_cluster_does_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    from beacon.suites.cluster import RayTasks

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folders = with_data(tmp_path)
    damaged = replace(SOURCE, seed=7)
    (folders.data / damaged.file_name).write_bytes(b"not a dataset")
    broken = small_experiment("cotrain", sources=(damaged,))
    fine = small_experiment("mmd")
    with RayTasks(2) as tasks:
        assert ray.is_initialized() and tasks.free == 2
        outcome = run_experiments([fine, broken], folders, tasks)
        assert outcome.done == 1 and list(outcome.failed) == [broken.key], outcome
        assert damaged.file_name in outcome.failed[broken.key]
        assert read_result(folders.result(fine))["machine"]["threads"] == 1

        # The command line hands its experiments to the same cluster, and leaves it as it was.
        chosen = select_entries(
            SUITES["contaminated"], PRESETS["tiny"], Choice((0,), ("target-only",), ("stack",))
        )
        (experiment,) = experiments_of(chosen)
        asked = ["contaminated", "--preset", "tiny", "--methods", "target-only", "--tasks", "stack"]
        folders = Folders(tmp_path / "suite", tmp_path / "suite-results")
        where = ["--work", str(folders.work), "--results", str(folders.results)]
        assert main(["suite", "run", *asked, "--seeds", "0", *where, "--ray"]) == 0
        captured = capsys.readouterr()
        assert "1 of 1 experiments are done" in captured.out, captured
        assert len(read_result(folders.result(experiment))["evaluations"][0]["outcomes"]["R"]) == 2
        assert ray.is_initialized()
    assert not ray.is_initialized()


def test_a_ray_cluster_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    where = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    assert main(["suite", "run", "contaminated", "--preset", "tiny", *where, "--ray"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("beacon: --ray: RAY_ADDRESS nowhere cannot be reached") and error.count("\n") == 1
