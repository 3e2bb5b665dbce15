"""PushT by gym-pusht: recorded states come back, episodes count as the package counts, suites can train."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from beacon.cli.main import main
from beacon.data.corruption import choose_corruptions, write_corrupted
from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.domains import CameraResponse, Domain
from beacon.sim.evaluate import EvaluateConfig, evaluate, evaluation_states, states_hash
from beacon.sim.pusht.corruption import replacements
from beacon.sim.pusht.recordings import FILES, FOLDER, recording_file, write_recordings
from beacon.sim.pusht.world import PushTWorld, make_environment, read_state, restore
from beacon.sim.simulation import InitialState, make_world


class Pusher:
    """Goes to one place, with its own noise for every row."""

    obs_steps = 2
    action_steps = 8
    observation_keys = ("pixels", "agent_pos")

    def reset(self, seed: Any) -> None:
        self._rng = np.random.default_rng(seed)

    def act(self, observation: Mapping[str, Array]) -> Array:
        assert observation["pixels"].shape[1:] == (2, 96, 96, 3)
        assert observation["agent_pos"].shape[1:] == (2, 2)
        return 256 + 100 * self._rng.standard_normal((len(observation["agent_pos"]), 8, 2))


def pusher() -> Pusher:
    return Pusher()


def zarr_file(folder: Path, task: str, demos: int = 4) -> Path:
    """Demonstrations in the layout of the public files, drawn by the package."""
    import zarr

    world, rng = PushTWorld(task), np.random.default_rng(0)
    arrays: dict[str, list[Any]] = {"action": [], "img": [], "state": []}
    ends = []
    for seed in range(demos):
        episode = world.episode()
        episode.reset(world.initial_state("train", seed))
        for _ in range(int(rng.integers(20, 30))):
            target = rng.uniform(100, 400, 2)
            arrays["action"].append(target)
            arrays["state"].append(episode.state()[1:])
            arrays["img"].append(episode.observe()["pixels"])
            episode.step(target)
        ends.append(len(arrays["action"]))
    path = folder / FILES[task]
    root = zarr.open_group(zarr.storage.ZipStore(path, mode="w"), mode="w", zarr_format=2)
    for name, values in arrays.items():
        stacked = np.array(values, np.uint8 if name == "img" else np.float32)
        made = root.create_array(
            f"data/{name}", shape=stacked.shape, dtype=stacked.dtype, chunks=(32, *stacked.shape[1:])
        )
        made[...] = stacked
    root.create_array("meta/episode_ends", shape=(len(ends),), dtype=np.int64)[...] = np.array(ends, np.int64)
    root.store.close()
    return path


def test_a_recorded_state_comes_back_exactly() -> None:
    environment = make_environment()
    environment.reset(seed=3)
    for _ in range(40):
        environment.step(np.array(environment.block.position))
    state, coverage = read_state(environment), environment._get_coverage()
    picture = environment._get_img(environment._draw(), 96, 96)

    other = make_environment()
    other.reset(seed=5)
    restore(other, state)

    assert read_state(other) == pytest.approx(state, abs=1e-9)
    assert other._get_coverage() == pytest.approx(coverage, abs=1e-9)
    # A vertex that lies between two pixels may be rounded either way.
    assert (other._get_img(other._draw(), 96, 96) != picture).mean() < 1e-3
    # The package's own way back leads elsewhere: turning the block moves it.
    other.reset(options={"reset_to_state": np.array(state)})
    assert np.abs(np.subtract(read_state(other), state)).max() > 1


def test_an_episode_is_the_package_s() -> None:
    """The same start and actions give the same states, coverage and success."""
    world = PushTWorld("pusht")
    episode, environment = world.episode(), make_environment()
    initial = world.initial_state("train", 11)
    episode.reset(initial)
    environment.reset(seed=11)
    assert read_state(environment) == pytest.approx(initial.qpos)
    restore(environment, initial.qpos)
    for step in range(30):
        action = np.array([256.0 + 8 * step, 400.0 - 6 * step])
        episode.step(action)
        _, _, terminated, _, told = environment.step(action)
        assert read_state(environment) == pytest.approx(episode.state()[1:].tolist())
        criteria = episode.criteria()
        assert criteria["coverage"] == pytest.approx(told["coverage"])
        assert criteria["success"] == terminated


def test_a_block_on_its_goal_is_a_success() -> None:
    for task, goal in (("pusht", 256.0), ("pusht-moved", 356.0)):
        world = PushTWorld(task)
        episode = world.episode()
        episode.reset(InitialState((50.0, 50.0, goal, goal, np.pi / 4), 0, {}))
        assert episode.criteria() == {"success": True, "coverage": pytest.approx(1.0)}
    frames = {"success": np.array([False, True]), "coverage": np.array([0.3, 0.96])}
    assert world.task.outcomes(frames) == {"success": 1.0, "max_coverage": 0.96}
    assert world.task.settled(frames)


def test_evaluation_reports_coverage_beside_success(tmp_path: Path) -> None:
    config = EvaluateConfig("pusht", episodes=3, videos=1)
    report = evaluate(Pusher(), config, out=tmp_path / "a.json")

    assert list(report["rates"]) == ["success", "max_coverage"]
    shares = [episode["max_coverage"] for episode in report["episodes"]]
    assert all(0 <= share <= 1 for share in shares)
    assert report["rates"]["max_coverage"]["rate"] == pytest.approx(np.mean(shares))
    assert report["versions"]["gym-pusht"] and report["versions"]["pymunk"].startswith("6.")
    assert Path(report["videos"][0]).stat().st_size > 1000
    again = evaluate(Pusher(), EvaluateConfig("pusht", episodes=3))
    assert again["episodes"] == report["episodes"]
    states = evaluation_states(make_world("pusht"), "train", config.seed, 3)
    assert states_hash(states) == report["initial_states"]["sha256"]


def test_domains_and_regions_that_it_lacks_are_refused() -> None:
    with pytest.raises(UserError, match="no table"):
        make_world("pusht", "texture")
    with pytest.raises(UserError, match="one region"):
        make_world("pusht").initial_state("ood", 0)
    with pytest.raises(UserError, match="recordings of people"):
        from beacon.sim.world import World

        World("pusht")
    noisy = PushTWorld("pusht", Domain("noisy", camera=CameraResponse(noise=20.0)))
    episode = noisy.episode()
    episode.reset(noisy.initial_state("train", 0))
    plain = PushTWorld("pusht").episode()
    plain.reset(noisy.initial_state("train", 0))
    assert (episode.observe()["pixels"] != plain.observe()["pixels"]).mean() > 0.5


def test_generate_says_that_there_is_no_expert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "pusht", "--out", str(tmp_path / "a.hdf5")]) == 2
    assert "recordings of people" in capsys.readouterr().err


def test_recordings_are_chosen_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr_file(tmp_path, "pusht")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for name, demos, seed in (("a", 2, 0), ("b", 3, 0), ("c", 3, 1)):
        write_recordings("pusht", tmp_path / f"{name}.hdf5", demos, seed)

    def chosen(name: str) -> list[str]:
        with h5py.File(tmp_path / f"{name}.hdf5") as file:
            demos = [file["data"][f"demo_{n}"] for n in range(len(file["data"]))]
            assert all(demo["obs/pixels"].shape[1:] == (96, 96, 3) for demo in demos)
            return [str(demo.attrs["recorded_as"]) for demo in demos]

    assert chosen("b")[:2] == chosen("a") and chosen("c") != chosen("b")
    with pytest.raises(UserError, match="4 demonstrations, 5 are asked for"):
        write_recordings("pusht", tmp_path / "d.hdf5", 5, 0)
    # Corrupted ones: positions stay on the board.
    shares = {"delayed": 0.34, "mirrored": 0.34, "noisy": 0.32}
    write_corrupted(tmp_path / "b.hdf5", tmp_path / "bad.hdf5", shares, 0, replacements(0))
    with h5py.File(tmp_path / "b.hdf5") as sound, h5py.File(tmp_path / "bad.hdf5") as bad:
        for number, corruption in enumerate(choose_corruptions(3, shares, 0)):
            before, after = (f["data"][f"demo_{number}"]["actions"][()] for f in (sound, bad))
            assert after.min() >= 0 and after.max() <= 512
            if corruption == "delayed":
                np.testing.assert_array_equal(after[8:], before[:-8])
                np.testing.assert_array_equal(after[:8], np.repeat(before[:1], 8, axis=0))
            elif corruption == "mirrored":
                np.testing.assert_allclose(after, np.stack([before[:, 0], 512 - before[:, 1]], axis=1))
            else:
                assert 60 < (after - before).std() < 200


def test_missing_recordings_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(UserError, match=f"set {FOLDER} to its folder"):
        recording_file("pusht")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(UserError, match="there is no such file"):
        recording_file("pusht-moved")


def test_train_evaluate_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on our tasks: a card of the public file, a short run, its evaluation and its page."""
    zarr_file(tmp_path, "pusht")
    card = tmp_path / "human.yaml"
    card.write_text(
        f"path: {FILES['pusht']}\ncameras: {{pixels: img}}\nproprio: {{agent_pos: 'state[0:2]'}}\n"
        "recorded_fps: 10\nimage_size: 32\n"
    )
    run = str(tmp_path / "run")
    train = ["train", "--method", "target-only", "--target", str(card), "--out", run, "--steps", "4"]
    train += ["--steps-per-epoch", "2", "--batch-size", "4", "--no-tensorboard"]
    assert main(train) == 0
    assert main(["evaluate", run, "--task", "pusht", "--episodes", "2"]) == 0
    (file,) = (tmp_path / "run" / "eval").glob("*.json")
    assert "max_coverage" in json.loads(file.read_text())["rates"]
    assert main(["report", run]) == 0
    assert "largest coverage" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_can_be_compared_until_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    policy = "sim.test_pusht:pusher"
    command = ["evaluate", policy, "--task", "pusht", "--episodes", "2", "--criterion", "max_coverage"]
    assert main([*command, "--until-decided", policy]) == 0
    assert "not decided after 2 states" in capsys.readouterr().out
