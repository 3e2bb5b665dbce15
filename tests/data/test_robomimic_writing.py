"""Writing and copying robomimic files: exact, atomic, and safe against being killed."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_datasets import ENV_ARGS, MakeFile

from beacon.data import Episode, EpisodeSet, RobomimicWriter, check_files, copy_episodes, write_robomimic
from beacon.errors import RunError, UserError


def make_episode(i: int, name: str | None = None, length: int = 4, size: int = 5) -> Episode:
    rng = np.random.default_rng(i)
    return Episode(
        name=name,
        actions=rng.uniform(-1, 1, (length, 4)).astype(np.float32),
        obs={
            "agentview_image": rng.integers(0, 256, (length, size, size, 3), dtype=np.uint8),
            "robot0_eef_pos": rng.normal(size=(length, 3)),
        },
        states=rng.normal(size=(length, 6)),
        rewards=np.zeros(length),
        dones=np.arange(length) == length - 1,
        attributes={"seed": i, "region": "train", "placement": [0.1, 0.2]},
        extra={"datagen_info/eef_pose": rng.normal(size=(length, 4, 4)), "src_demo_inds": np.array([1, 2])},
    )


@pytest.mark.parametrize("compression", [None, 1, 9])
def test_round_trip_is_exact(tmp_path: Path, compression: int | None) -> None:
    path = tmp_path / "new" / "out.hdf5"
    written = [make_episode(i, length=3 + i) for i in range(3)]
    write_robomimic(
        path, iter(written), env_args=ENV_ARGS, masks={"train": ["demo_0", "demo_2"]}, compression=compression
    )
    assert [p.name for p in path.parent.iterdir()] == ["out.hdf5"]
    episodes = EpisodeSet.load(path)
    assert episodes.env_args == ENV_ARGS and episodes.lengths.tolist() == [3, 4, 5]
    for e, episode in enumerate(written):
        read = episodes.episode(e)
        np.testing.assert_array_equal(read.obs["agentview_image"], episode.obs["agentview_image"])
        np.testing.assert_array_equal(read.actions, episode.actions)
        assert read.attributes == {"seed": e, "region": "train", "placement": [0.1, 0.2]}
    assert EpisodeSet.load(path, mask="train").episode_names == ["demo_0", "demo_2"]
    with h5py.File(path) as file:
        demo = file["data/demo_1"]
        assert file["data"].attrs["total"] == 12 and demo.attrs["num_samples"] == 4
        assert file["mask/train"][()].tolist() == [b"demo_0", b"demo_2"]
        assert demo["obs/robot0_eef_pos"].dtype == np.float64  # stored as given
        for name in ("states", "rewards", "dones"):
            np.testing.assert_array_equal(demo[name][()], getattr(written[1], name))
        np.testing.assert_array_equal(
            demo["datagen_info/eef_pose"][()], written[1].extra["datagen_info/eef_pose"]
        )
    assert [f.text for f in check_files([path])] == []


def test_a_loaded_set_can_be_written_again(make_file: MakeFile, tmp_path: Path) -> None:
    episodes = EpisodeSet.load(make_file())
    write_robomimic(tmp_path / "out.hdf5", map(episodes.episode, range(3)), env_args=episodes.env_args)
    again = EpisodeSet.load(tmp_path / "out.hdf5")
    np.testing.assert_array_equal(again.actions, episodes.actions)
    np.testing.assert_array_equal(again.images["agentview_image"], episodes.images["agentview_image"])
    assert again.episode_attributes == episodes.episode_attributes


def test_an_interrupted_writer_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with pytest.raises(KeyboardInterrupt), RobomimicWriter(path, env_args=ENV_ARGS) as writer:
        writer.add(make_episode(0))
        writer.add(make_episode(5, name="demo_5"))
        raise KeyboardInterrupt
    assert not path.exists() and writer.partial.is_dir()
    with pytest.raises(UserError, match="unfinished file with 2 demonstrations"):
        RobomimicWriter(path, env_args=ENV_ARGS)
    with pytest.raises(UserError, match="other settings"):
        RobomimicWriter(path, env_args={"env_name": "Lift"}, resume=True)
    with RobomimicWriter(path, env_args=ENV_ARGS, resume=True) as writer:
        assert writer.episode_names == ["demo_0", "demo_5"] and len(writer) == 2
        assert writer.episode_attributes("demo_5")["seed"] == 5
        assert writer.add(make_episode(6)) == "demo_6"
        with pytest.raises(ValueError, match="written already"):
            writer.add(make_episode(0, name="demo_0"))
    assert EpisodeSet.load(path).episode_names == ["demo_0", "demo_5", "demo_6"]
    assert not writer.partial.exists()


def test_a_writer_that_wrote_nothing_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with pytest.raises(ZeroDivisionError), RobomimicWriter(path, env_args={"env_name": "Lift"}):
        1 / 0  # noqa: B018
    write_robomimic(path, [make_episode(0)], env_args=ENV_ARGS)
    assert EpisodeSet.load(path).env_args == ENV_ARGS


def test_overwriting_must_be_allowed_and_happens_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    write_robomimic(path, [make_episode(0)], env_args=ENV_ARGS)
    before = path.read_bytes()
    with pytest.raises(UserError, match="exists already"):
        RobomimicWriter(path, env_args=ENV_ARGS)
    with pytest.raises(ZeroDivisionError), RobomimicWriter(path, env_args=ENV_ARGS, overwrite=True) as writer:
        writer.add(make_episode(1))
        1 / 0  # noqa: B018
    assert path.read_bytes() == before
    write_robomimic(path, [make_episode(2)], env_args=ENV_ARGS, overwrite=True)
    np.testing.assert_array_equal(EpisodeSet.load(path).actions, make_episode(2).actions)


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    with RobomimicWriter(tmp_path / "out.hdf5", env_args={}) as writer:
        with pytest.raises(UserError, match="another process"):
            RobomimicWriter(tmp_path / "out.hdf5", env_args={}, resume=True)
        writer.add(make_episode(0))


def test_writers_of_two_files_in_two_threads_do_not_meet(tmp_path: Path) -> None:
    def write(number: int) -> int:
        path = tmp_path / f"file_{number}.hdf5"
        write_robomimic(path, [make_episode(i, size=24) for i in range(40)], env_args=ENV_ARGS)
        return len(EpisodeSet.load(path))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [40] * 4


def test_bad_episodes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with (
        pytest.raises(RunError, match="no demonstration was added"),
        RobomimicWriter(path, env_args={}) as writer,
    ):
        for bad, message in (
            ({"name": "episode_1"}, "demo_<number>"),
            ({"actions": np.zeros(3)}, "actions of shape"),
            ({"actions": np.zeros((0, 3))}, "actions of shape"),
            ({"obs": {"x": np.zeros((2, 3))}}, r"'obs/x' has shape \(2, 3\), but there are 3"),
            ({"rewards": np.zeros(4)}, "'rewards'"),
        ):
            with pytest.raises(ValueError, match=message):
                writer.add(Episode(**({"name": None, "actions": np.zeros((3, 2)), "obs": {}} | bad)))  # type: ignore[arg-type]


def test_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    episodes = [make_episode(i, size=32) for i in range(5)]
    writer = RobomimicWriter(path, env_args=ENV_ARGS)
    for episode in episodes[:3]:
        writer.add(episode)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
        with pytest.raises(RunError, match=r"cannot write .*3 demonstrations before it are kept"):
            writer.add(episodes[3])
        for limit in (1_000, 20_000, 30_000, 45_000):  # the joining fails in its beginning, middle and end
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(RunError, match=r"cannot write .* are kept in .*\.partial"):
                writer.finish()
            assert not path.exists()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.add(episodes[4])
    writer.finish()
    assert EpisodeSet.load(path).actions.shape == (16, 4)
    assert [p.name for p in tmp_path.iterdir()] == ["out.hdf5"]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises(RunError, match=r"cannot write .*copy.hdf5"):
            copy_episodes(path, tmp_path / "copy.hdf5", ["demo_0", "demo_1", "demo_2"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["out.hdf5"]


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from test_robomimic_writing import ENV_ARGS, make_episode
from beacon.data import RobomimicWriter
with RobomimicWriter({path!r}, env_args=ENV_ARGS, resume=True) as writer:
    for i in range(40):
        if f"demo_{{i}}" not in writer.episode_names:
            writer.add(make_episode(i, name=f"demo_{{i}}", size=24))
            print(i, flush=True)
    print("joining", flush=True)
"""


def test_killed_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    script = KILLED.format(tests=str(Path(__file__).parent), path=str(path))
    rng = random.Random(0)
    done = 0
    for lines in (3, 9, 15, 1000):  # the last attempt is killed while joining
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for count, line in enumerate(process.stdout):
                if count >= lines or line == "joining\n":
                    time.sleep(rng.uniform(0, 0.01))
                    process.send_signal(signal.SIGKILL)
                    break
        if path.exists():
            break  # the joining was faster
        finished = len(list((tmp_path / "out.hdf5.partial").glob("demo_*.hdf5")))
        assert finished >= min(40, done + 1)
        done = finished
    if not path.exists():
        subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    whole = tmp_path / "whole.hdf5"
    write_robomimic(whole, (make_episode(i, name=f"demo_{i}", size=24) for i in range(40)), env_args=ENV_ARGS)
    assert path.read_bytes() == whole.read_bytes()


def test_copy_keeps_everything_and_renumbers(make_file: MakeFile, tmp_path: Path) -> None:
    source = make_file(
        mimicgen=True, masks={"train": ["demo_0", "demo_2"], "valid": ["demo_1"]}, lengths=(5, 3, 4)
    )
    copy = tmp_path / "kept.hdf5"
    copy_episodes(source, copy, ["demo_2", "demo_0"], attributes={"demo_2": {"weight": 0.75}})
    with h5py.File(source) as old, h5py.File(copy) as new:
        assert list(new["data"]) == ["demo_0", "demo_1"]
        assert json.loads(new["data"].attrs["env_args"]) == ENV_ARGS and new["data"].attrs["total"] == 9
        for number, name in enumerate(["demo_2", "demo_0"]):
            ours, theirs = new[f"data/demo_{number}"], old[f"data/{name}"]
            assert ours.attrs["original_name"] == name and ours.attrs["original_file"] == "demos.hdf5"
            for key, value in theirs.attrs.items():
                assert ours.attrs[key] == value
            names: list[str] = []
            theirs.visit(names.append)
            for key in names:
                if isinstance(theirs[key], h5py.Dataset):
                    np.testing.assert_array_equal(ours[key][()], theirs[key][()])
                    assert ours[key].dtype == theirs[key].dtype
        assert new["data/demo_0"].attrs["weight"] == 0.75
        assert new["mask/train"][()].tolist() == [b"demo_1", b"demo_0"] and "valid" not in new["mask"]
    assert EpisodeSet.load(copy).episode_attributes[1]["original_name"] == "demo_0"
    assert check_files([copy]) == []


def test_copy_refuses_nonsense(make_file: MakeFile, tmp_path: Path) -> None:
    source = make_file()
    copy = tmp_path / "kept.hdf5"
    for names, message in (
        (["demo_7"], "has no demo_7"),
        ([], "no demonstration"),
        (["demo_0", "demo_0"], "chosen twice"),
    ):
        with pytest.raises(UserError, match=message):
            copy_episodes(source, copy, names)
        assert not copy.exists()
    with pytest.raises(UserError, match="cannot replace the file"):
        copy_episodes(source, source, ["demo_0"], overwrite=True)
    copy.write_text("precious")
    with pytest.raises(UserError, match="exists already"):
        copy_episodes(source, copy, ["demo_0"])
    assert copy.read_text() == "precious"
    copy_episodes(source, copy, ["demo_1"], overwrite=True)
    assert EpisodeSet.load(copy).lengths.tolist() == [3]
