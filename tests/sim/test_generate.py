from __future__ import annotations

import json
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from beacon.errors import RunError, UserError
from beacon.sim import attempts as attempts_module
from beacon.sim import generate as generate_module
from beacon.sim.domains import DOMAINS, domain_from_dict
from beacon.sim.generate import GenerateConfig, GenerateReport, generate
from beacon.sim.scene import absolute
from beacon.sim.world import Episode, World


def make(path: Path, **options: object) -> GenerateReport:
    arguments: dict[str, object] = {"task": "lift", "demos": 3, "seed": 5, **options}
    return generate(GenerateConfig(out=path, **arguments))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def lift(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "lift.hdf5"
    report = make(path)
    assert report.demos == 3
    assert report.attempts == report.demos + report.failures
    return path


def test_what_is_in_the_file(lift: Path) -> None:
    with h5py.File(lift) as file:
        data = file["data"]
        arguments = json.loads(data.attrs["env_args"])
        assert arguments["env_name"] == "BeaconLift"
        assert arguments["type"] == 1
        assert arguments["env_kwargs"]["size"] == "small"
        assert domain_from_dict(arguments["env_kwargs"]["domain"]) == DOMAINS["source"]
        assert arguments["beacon"]["seed"] == 5
        total = 0
        for name in ("demo_0", "demo_1", "demo_2"):
            demo = data[name]
            steps = int(demo.attrs["num_samples"])
            total += steps
            assert demo["obs/agentview_image"].shape == (steps, 96, 96, 3)
            assert demo["obs/agentview_image"].dtype == np.uint8
            assert demo["obs/robot0_eef_pos"].shape == (steps, 3)
            assert demo["obs/robot0_eef_quat"].shape == (steps, 4)
            assert demo["obs/robot0_gripper_qpos"].shape == (steps, 2)
            assert demo["actions"].shape == (steps, 4)
            assert demo["rewards"][-1] == 1.0
            assert json.loads(demo.attrs["outcomes"])["success"] == 1.0
        assert data.attrs["total"] == total


def test_two_workers_write_the_same_bytes(lift: Path, tmp_path: Path) -> None:
    make(tmp_path / "again.hdf5", workers=2)
    assert (tmp_path / "again.hdf5").read_bytes() == lift.read_bytes()


def test_another_seed_gives_other_demonstrations(lift: Path, tmp_path: Path) -> None:
    make(tmp_path / "other.hdf5", seed=6, demos=1)
    with h5py.File(lift) as one, h5py.File(tmp_path / "other.hdf5") as other:
        assert not np.array_equal(one["data/demo_0/states"][0], other["data/demo_0/states"][0])


def test_interrupted_generation_goes_on(lift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cut.hdf5"
    real = attempts_module.attempt

    def interrupted(job: attempts_module.Job, index: int) -> attempts_module.Attempt:
        if index == 2:
            raise KeyboardInterrupt
        return real(job, index)

    monkeypatch.setattr(attempts_module, "attempt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(path)
    assert not path.exists()
    monkeypatch.setattr(attempts_module, "attempt", real)
    make(path)
    assert path.read_bytes() == lift.read_bytes()


def test_failures_are_counted_and_left_out(
    lift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = attempts_module.attempt

    def clumsy(job: attempts_module.Job, index: int) -> attempts_module.Attempt:
        if index == 0:
            return attempts_module.Attempt(0, False, 10, {})
        return real(job, index)

    monkeypatch.setattr(attempts_module, "attempt", clumsy)
    report = make(tmp_path / "clumsy.hdf5", demos=2)
    assert (report.demos, report.failures, report.attempts) == (2, 1, 3)
    with h5py.File(tmp_path / "clumsy.hdf5") as file, h5py.File(lift) as whole:
        assert file["data/demo_0"].attrs["attempt"] == 1
        assert file["data/demo_0"].attrs["failures_before"] == 1
        assert np.array_equal(file["data/demo_0/actions"], whole["data/demo_1/actions"])


def test_giving_up_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_module, "PATIENCE", 3)
    monkeypatch.setattr(
        attempts_module, "attempt", lambda job, index: attempts_module.Attempt(index, False, 1, {})
    )
    with pytest.raises(RunError, match="3 attempts at lift failed in a row"):
        make(tmp_path / "never.hdf5")


def test_full_disk_keeps_what_is_done(lift: Path, tiny_disk: Path) -> None:
    with pytest.raises(RunError, match=r"the disk is full; the \d+ demonstrations before it are kept"):
        make(tiny_disk / "lift.hdf5")
    kept = {path: path.stat().st_mtime_ns for path in (tiny_disk / "lift.hdf5.partial").glob("demo_*.hdf5")}
    subprocess.run(["mount", "-o", "remount,size=20m", str(tiny_disk)], check=True)
    assert make(tiny_disk / "lift.hdf5").demos == 3
    assert kept and (tiny_disk / "lift.hdf5").read_bytes() == lift.read_bytes()


def test_states_and_model_file_bring_the_demonstration_back(lift: Path) -> None:
    """What robomimic's playback does: load model_file, set states, render."""
    import robosuite

    import beacon.sim.robosuite_env  # noqa: F401 - registers the environments

    with h5py.File(lift) as file:
        arguments = json.loads(file["data"].attrs["env_args"])
        demo = file["data/demo_0"]
        states, images, model = demo["states"][:], demo["obs/agentview_image"][:], demo.attrs["model_file"]
        actions = demo["actions"][:]
    assert "robosuite/models/assets" in model
    assert str(Path(robosuite.__file__).parent) not in model
    env = robosuite.make(
        arguments["env_name"],
        **arguments["env_kwargs"],
        has_renderer=False,
        has_offscreen_renderer=True,
        use_camera_obs=False,
    )
    env.reset()
    env.reset_from_xml_string(absolute(env.edit_model_xml(model)))
    for index in (0, 20):
        env.sim.reset()
        env.sim.set_state_from_flattened(states[index])
        env.sim.forward()
        picture = env.sim.render(camera_name="agentview", width=96, height=96)[::-1]
        assert np.abs(picture.astype(int) - images[index]).mean() < 3
    # Actions too: the environment's own step repeats the recorded states.
    env.reset_to_state(states[0])
    for index in range(10):
        env.step(actions[index])
        assert np.allclose(env.sim.data.qpos, states[index + 1][1 : 1 + env.sim.model.nq], atol=1e-6)
    assert env.action_spec[0].shape == (4,)
    env.close()


def test_replay_pairs_demonstrations(lift: Path, tmp_path: Path) -> None:
    path = tmp_path / "texture.hdf5"
    report = make(path, domain="texture", replay=lift)
    assert report.demos == 3
    with h5py.File(lift) as one, h5py.File(path) as other:
        for name in one["data"]:
            a, b = one["data"][name], other["data"][name]
            assert np.array_equal(a["actions"], b["actions"])
            assert np.array_equal(a["states"], b["states"])
            assert b.attrs["replayed_from"] == name
            assert np.abs(a["obs/agentview_image"][0].astype(int) - b["obs/agentview_image"][0]).mean() > 15


def test_a_few_demonstrations_become_more(lift: Path, tmp_path: Path) -> None:
    path = tmp_path / "more.hdf5"
    report = make(path, mimic=lift, demos=4, seed=9)
    assert report.demos == 4
    assert report.success_rate > 0.3
    with h5py.File(path) as file:
        assert set(file["data/demo_0/src_demo_inds"][:]) <= {0, 1, 2}


def test_mimic_moves_segments_with_the_object(tmp_path: Path) -> None:
    from beacon.sim.mimic import MimicActor, load_source

    make(tmp_path / "seed.hdf5", task="stack", demos=2)
    world = World("stack", "source", "small")
    source = load_source(str(tmp_path / "seed.hdf5"), world)
    assert len(source) == 2
    for demo in source:
        assert 0 < demo.ends[0] < demo.ends[1] == len(demo.targets)
    episode = Episode(world)
    episode.reset(world.initial_state("train", 77))
    actor = MimicActor(source, episode, np.random.default_rng(0), noise=0.0)
    steps = 0
    while (action := actor()) is not None:
        assert np.abs(action).max() <= 1
        episode.step(action)
        steps += 1
    assert len(actor.chosen) == 2
    assert steps > 40


def test_wrong_input_is_told(lift: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.hdf5"
    with pytest.raises(UserError, match="exists already"):
        make(lift)
    with pytest.raises(UserError, match="not of stack small"):
        make(out, task="stack", replay=lift)
    with pytest.raises(UserError, match="no file"):
        make(out, mimic=tmp_path / "absent.hdf5")
    (tmp_path / "junk.hdf5").write_text("junk")
    with pytest.raises(UserError, match="not a robomimic HDF5 file"):
        make(out, replay=tmp_path / "junk.hdf5")
    with pytest.raises(UserError, match="exclude each other"):
        make(out, replay=lift, mimic=lift)
    with pytest.raises(UserError, match="--demos is 0"):
        make(out, demos=0)
    with pytest.raises(UserError, match="no region"):
        make(out, region="elsewhere")
    with pytest.raises(UserError, match="no domain"):
        make(out, domain="elsewhere")


def _die(job: object, index: int) -> None:
    import os

    os._exit(9)


def test_a_worker_that_dies_is_one_line() -> None:
    with pytest.raises(RunError, match="a worker process died"):
        next(iter(attempts_module.in_order(_die, None, 0, 1)))
