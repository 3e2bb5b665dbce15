"""Meta-World's tasks through our commands; only those that methods may be chosen on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.data.corruption import corruption_of
from beacon.errors import UserError
from beacon.sim.evaluate import EvaluateConfig, evaluate
from beacon.sim.experts import make_expert
from beacon.sim.generate import GenerateConfig, generate
from beacon.sim.policies import random_small
from beacon.sim.rollout import Recording, pictures, record
from beacon.sim.simulation import SimulatedWorld, make_world
from beacon.sim.tasks import find_task, make_task
from beacon.suites.datasets import OTHER_CAMERA, equal_corruptions, provide
from beacon.suites.experiment import DatasetSpec

TASKS = ("door-open-v3", "window-open-v3", "plate-slide-v3", "handle-pull-side-v3")
DOOR = "metaworld/door-open-v3"


def small_world(task: str, domain: str = "source") -> SimulatedWorld:
    return make_world(task, domain, "small", 48)


def show(world: SimulatedWorld, seed: int = 3) -> Recording:
    episode, rng = world.episode(), np.random.default_rng(0)
    return record(episode, world.initial_state("train", seed), lambda: make_expert(episode, rng).act)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doors") / "door.hdf5"
    generate(GenerateConfig(DOOR, path, demos=2, seed=4, image_size=48))
    return path


@pytest.mark.parametrize("name", TASKS)
def test_experts_solve_their_task_from_every_region(name: str) -> None:
    world = small_world(f"metaworld/{name}")
    starts = {region: world.initial_state(region, 5) for region in ("train", "target", "ood")}
    assert len({start.qpos for start in starts.values()}) == 3
    recording = show(world)
    assert recording.criteria[-1]["success"] and not recording.criteria[0]["success"]
    assert len(recording) < world.task.size.horizon
    assert np.abs(np.stack(recording.actions)).max() <= 1.0


def test_an_episode_is_a_function_of_its_seeds() -> None:
    world = small_world(DOOR)
    first, second = show(world), show(world)
    np.testing.assert_array_equal(np.stack(first.states), np.stack(second.states))


def test_pictures_of_recorded_states_are_what_the_camera_saw() -> None:
    world = small_world("metaworld/plate-slide-v3", "texture")
    episode = world.episode()
    seen = []
    for seed in (1, 2):  # the second shows whether anything of the first is left
        episode.reset(world.initial_state("train", seed))
        states = []
        for action in ([0.0, 0.5, -1.0, 1.0], [0.3, 0.5, -1.0, -1.0]):
            states.append(episode.state())
            seen.append(episode.observe()["agentview_image"])
            episode.step(np.array(action))
        np.testing.assert_array_equal(pictures(world, states, seed), np.stack(seen[-2:]))
    assert np.abs(seen[0].astype(int) - seen[2]).max() > 30  # the goal is elsewhere


def test_domains_change_looks_and_not_the_start() -> None:
    looks = {}
    for domain in ("source", "texture", "texture-view", "real-proxy"):
        world = small_world(DOOR, domain)
        episode = world.episode()
        episode.reset(world.initial_state("train", 0))
        assert world.initial_state("train", 0) == small_world(DOOR).initial_state("train", 0)
        looks[domain] = episode.observe()["agentview_image"].astype(int)
    for domain, image in looks.items():
        others = [np.abs(image - other).mean() for name, other in looks.items() if name != domain]
        assert min(others) > 5


def test_what_is_in_the_file(doors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(doors) as file:
        arguments = json.loads(file["data"].attrs["env_args"])
        assert arguments["env_name"] == "door-open-v3" and arguments["type"] == 2
        assert arguments["beacon"]["task"] == DOOR
        demo = file["data"]["demo_0"]
        assert demo["actions"].shape[1] == 4 and demo["rewards"][-1] == 1.0
        assert demo["obs/agentview_image"].shape[1:] == (48, 48, 3)
    assert main(["data", "inspect", str(doors)]) == 0
    assert "80" in capsys.readouterr().out  # control steps a second


def test_actions_can_be_repeated_in_another_domain(doors: Path, tmp_path: Path) -> None:
    out = tmp_path / "view.hdf5"
    generate(GenerateConfig(DOOR, out, demos=2, domain="texture-view", replay=doors, image_size=48))
    with h5py.File(doors) as source, h5py.File(out) as copy:
        for name in source["data"]:
            own, other = source["data"][name], copy["data"][name]
            np.testing.assert_array_equal(own["states"], other["states"])
            images = [group["obs/agentview_image"][0].astype(int) for group in (own, other)]
            assert np.abs(images[0] - images[1]).mean() > 5


def test_evaluation() -> None:
    config = EvaluateConfig(DOOR, "texture", episodes=2, seed=9)
    first, second = evaluate(random_small(), config), evaluate(random_small(), config)
    assert first["n_success"] == 0 and first["episodes"] == second["episodes"]
    assert first["episodes"][0]["length"] == 200


def test_a_corrupted_source(tmp_path: Path) -> None:
    corruptions = equal_corruptions(DOOR, 1.0)
    assert "wrong-object" not in dict(corruptions)  # there is no other door
    path = provide(DatasetSpec(DOOR, "source", 4, corruptions=corruptions), tmp_path)
    sound = EpisodeSet.load(provide(DatasetSpec(DOOR, "source", 4), tmp_path))
    bad = EpisodeSet.load(path)
    for number, attributes in enumerate(bad.episode_attributes):
        rows = slice(int(bad.starts[number]), int(bad.starts[number] + bad.lengths[number]))
        turned = corruption_of(attributes) == OTHER_CAMERA
        assert np.array_equal(sound.actions[rows], bad.actions[rows]) == turned
        frames = [np.asarray(s.images["agentview_image"][rows.start]).astype(int) for s in (sound, bad)]
        assert (np.abs(frames[0] - frames[1]).mean() > 5) == turned


def test_mistakes_take_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Meta-World has no task 'juggle-v3'"):
        make_task("metaworld/juggle-v3", "small")
    with pytest.raises(UserError, match="metaworld/NAME"):
        find_task("metaworlds/door-open-v3")
    with pytest.raises(UserError, match="--mimic: metaworld/door-open-v3 has no subtasks"):
        generate(GenerateConfig(DOOR, tmp_path / "x.hdf5", mimic=tmp_path / "y.hdf5"))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_task("metaworld/window-open-v3").reported == ("success",)  # tables need no simulator
    monkeypatch.setitem(sys.modules, "metaworld.policies", None)  # as if it were not installed
    world = small_world(DOOR)
    episode = world.episode()
    episode.reset(world.initial_state("train", 0))
    with pytest.raises(UserError, match=r"pip install 'beacon-cotraining\[metaworld\]'"):
        make_expert(episode, np.random.default_rng(0))
