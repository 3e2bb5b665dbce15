"""Conversion: HDF5 to LeRobot and back is the same dataset, whole or absent; what LeRobot needs is there."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from raw_datasets import MakeFile
from raw_lerobot import CAMERA, actions, pictures, states, write_v21, write_zarr

from beacon.cli.main import main
from beacon.data import Episode, EpisodeSet, RobomimicWriter, check_files, write_robomimic
from beacon.data.converting import ConvertOptions, convert, read_episodes, write_options
from beacon.data.formats import create_dataset, open_dataset, video_writer
from beacon.data.formats.lerobot_stats import combine, vector_stats
from beacon.errors import UserError

KEY = "observation.images.agentview_image"


def smooth_file(path: Path, lengths: tuple[int, ...] = (9, 6, 12)) -> Path:
    """Demonstrations with pictures that a video codec can hold."""
    rng = np.random.default_rng(0)
    episodes = [
        Episode(
            f"demo_{2 * e}",
            rng.uniform(-1, 1, (n, 7)).astype(np.float32),
            {
                "agentview_image": pictures(e, n, (64, 80)),
                "robot0_eef_pos": rng.normal(size=(n, 3)),
                "robot0_gripper_qpos": rng.normal(size=(n, 2)),
                "object": rng.normal(size=(n, 10)),
            },
            states=rng.normal(size=(n, 5)),
            rewards=np.zeros(n),
            dones=np.eye(1, n, n - 1, dtype=np.int64)[0],
            attributes={"seed": 5 + e, "flaw": "none"},
            extra={"datagen_info/eef_pose": rng.normal(size=(n, 4, 4))},
        )
        for e, n in enumerate(lengths)
    ]
    env_args = {"env_name": "Stack", "type": 1, "env_kwargs": {"control_freq": 20, "robots": ["Panda"]}}
    write_robomimic(path, episodes, env_args=env_args, masks={"valid": ["demo_2", "demo_4"]})
    return path


@pytest.mark.parametrize("video", [True, False])
def test_round_trip(tmp_path: Path, video: bool) -> None:
    source = smooth_file(tmp_path / "a.hdf5")
    assert convert(source, tmp_path / "b", ConvertOptions(video=video)) == 3
    assert convert(tmp_path / "b", tmp_path / "c.hdf5") == 3
    with h5py.File(source) as old, h5py.File(tmp_path / "c.hdf5") as new:
        assert list(new["data"]) == list(old["data"])
        assert json.loads(new["data"].attrs["env_args"]) == json.loads(old["data"].attrs["env_args"])
        assert new["mask/valid"][()].tolist() == old["mask/valid"][()].tolist()
        for name, demo in old["data"].items():
            assert new["data"][name].attrs["seed"] == demo.attrs["seed"]
            assert new["data"][name].attrs["num_samples"] == demo.attrs["num_samples"]
            keys: list[str] = []
            demo.visit(keys.append)
            for key in (k for k in keys if isinstance(demo[k], h5py.Dataset)):
                ours, theirs = new["data"][name][key][()], demo[key][()]
                assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, key
                if "image" in key and video:
                    assert np.abs(ours.astype(int) - theirs).mean() < 3
                elif key.startswith("obs/robot0"):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-6)  # float32 in observation.state
                else:
                    np.testing.assert_array_equal(ours, theirs)
    assert check_files([tmp_path / "c.hdf5"]) == []


@pytest.mark.parametrize("video", [True, False])
def test_what_lerobot_needs_is_there(tmp_path: Path, video: bool) -> None:
    """By pyarrow and av alone: columns, index, totals, time stamps, statistics of every camera."""
    root = tmp_path / "b"
    convert(smooth_file(tmp_path / "a.hdf5"), root, ConvertOptions(video=video))
    info = json.loads((root / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["fps"] == 20 and info["robot_type"] == "Panda"
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (3, 27, 1)
    assert (info["video_path"] is None) == (not video)
    assert all("/" not in name for name in info["features"])
    table = pq.read_table(root / "data/chunk-000/file-000.parquet")
    declared = {name for name, feature in info["features"].items() if feature["dtype"] != "video"}
    assert set(table.column_names) == declared
    assert table["index"].to_pylist() == list(range(27))
    assert pq.ParquetFile(root / "data/chunk-000/file-000.parquet").num_row_groups == 3
    np.testing.assert_allclose(table["timestamp"].to_numpy()[9:15], np.arange(6) / 20)
    assert str(table.schema.field("action").type).startswith("fixed_size_list<") and "[7]" in str(
        table.schema.field("action").type
    )
    rows = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [r["dataset_from_index"] for r in rows] == [0, 9, 15]
    assert [r["dataset_to_index"] for r in rows] == [9, 15, 27]
    assert rows[0]["stats/action/mean"] is not None and rows[1]["meta/episodes/file_index"] == 0
    tasks = pq.read_table(root / "meta/tasks.parquet")
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]
    stats = json.loads((root / "meta/stats.json").read_text())
    assert set(stats) == set(info["features"])
    assert np.shape(stats[KEY]["mean"]) == (3, 1, 1) and 0 < stats[KEY]["max"][0][0][0] <= 1
    assert np.shape(stats["action"]["q99"]) == (7,) and np.shape(stats["timestamp"]["count"]) == (1,)
    if video:
        starts = [r[f"videos/{KEY}/from_timestamp"] for r in rows]
        assert starts == [0, 9 / 20, 15 / 20]
        with av.open(str(root / f"videos/{KEY}/chunk-000/file-000.mp4")) as container:
            times = [float(f.pts * f.time_base) for f in container.decode(video=0)]
        np.testing.assert_allclose(times, np.arange(27) / 20, atol=1e-6)


def test_large_videos_begin_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = smooth_file(tmp_path / "a.hdf5", (60, 60, 60))
    monkeypatch.setattr(video_writer.VideoWriter.__init__, "__defaults__", (1,))
    convert(source, tmp_path / "b")
    files = sorted((tmp_path / "b/videos").rglob("*.mp4"))
    assert len(files) > 1
    ours, theirs = (
        EpisodeSet.load(tmp_path / "b").images[KEY],
        EpisodeSet.load(source).images["agentview_image"],
    )
    assert np.abs(ours.astype(int) - theirs).mean((1, 2, 3)).max() < 4


def test_statistics_together_are_those_of_all_values() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(i, 1 + i, (20 + 30 * i, 3)) for i in range(4)]
    together, whole = combine([vector_stats(part) for part in parts]), vector_stats(np.concatenate(parts))
    for name in ("min", "max", "mean", "std", "count"):
        np.testing.assert_allclose(together[name], whole[name], rtol=1e-9)


def test_foreign_datasets_become_hdf5(tmp_path: Path) -> None:
    convert(write_v21(tmp_path / "lerobot", images=True), tmp_path / "a.hdf5")
    episodes = EpisodeSet.load(tmp_path / "a.hdf5")
    assert episodes.episode_names == ["demo_0", "demo_1", "demo_2"] and list(episodes.images) == ["front"]
    np.testing.assert_array_equal(episodes.actions[:7], actions(0, 7))
    with open_dataset(tmp_path / "a.hdf5") as reader:
        np.testing.assert_array_equal(reader.read("demo_1", "obs/state"), states(1, 5))
        assert reader.fps == 10 and reader.attributes("demo_1")["task"] == "lift"
    convert(write_zarr(tmp_path / "zarr"), tmp_path / "b", ConvertOptions(fps=10, video=False))
    np.testing.assert_array_equal(EpisodeSet.load(tmp_path / "b").actions[7:12], actions(1, 5))


def test_a_card_is_applied(tmp_path: Path) -> None:
    write_v21(tmp_path / "data")
    (tmp_path / "card.yaml").write_text(
        f"path: data\ncameras: {{front_image: {CAMERA}}}\nimage_size: 16\nepisodes: [2]\n"
        "actions: {keys: ['action[0]', 'action[2]'], scale: 2}\n"
    )
    convert(tmp_path / "card.yaml", tmp_path / "a.hdf5")
    episodes = EpisodeSet.load(tmp_path / "a.hdf5")
    assert episodes.images["front_image"].shape == (6, 16, 16, 3)
    np.testing.assert_allclose(episodes.actions, 2 * actions(2, 6)[:, [0, 2]])


def test_a_relative_name_with_a_colon_is_a_folder_and_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = smooth_file(tmp_path / "raw.hdf5", (3, 3, 3))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "convert", str(source), "s3:copy", "--images", "--fps", "10"]) == 0
    assert (tmp_path / "s3:copy" / "meta" / "info.json").is_file()
    with open_dataset(Path("s3:copy")) as reader:
        assert len(reader.episode_names) == 3


def test_conversion_is_whole_or_absent(
    tmp_path: Path, make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = make_file("odd.hdf5", size=(7, 9))
    assert main(["data", "convert", str(odd), str(tmp_path / "out")]) == 2
    assert "--images" in capsys.readouterr().err
    assert main(["data", "convert", str(odd), str(tmp_path / "out"), "--images"]) == 0
    before = (tmp_path / "out/meta/info.json").read_bytes()
    assert main(["data", "convert", str(odd), str(tmp_path / "out"), "--images"]) == 2
    assert "exists already" in capsys.readouterr().err
    bad = make_file("bad.hdf5", seed=3)
    with h5py.File(bad, "r+") as file:
        del file["data/demo_2/actions"]
    assert main(["data", "convert", str(bad), str(tmp_path / "out"), "--images", "--overwrite"]) == 2
    assert (tmp_path / "out/meta/info.json").read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))
    assert main(["data", "convert", str(odd), str(tmp_path / "out"), "--images", "--overwrite"]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("dear")
    assert main(["data", "convert", str(odd), str(tmp_path / "mine"), "--overwrite"]) == 2
    assert (tmp_path / "mine/letter").exists()
    with pytest.raises(UserError, match="no format that BEACON writes"):
        convert(odd, tmp_path / "out.zarr")
    with pytest.raises(UserError, match="needs the control rate"):
        convert(write_zarr(tmp_path / "zarr"), tmp_path / "rate")
    with pytest.raises(UserError, match="cannot replace"):
        convert(odd, odd, ConvertOptions(overwrite=True))


@pytest.mark.parametrize("out", ["copy.hdf5", "lerobot"])
def test_what_a_failed_or_killed_conversion_left_is_in_nobodys_way(
    out: str, tmp_path: Path, make_file: MakeFile
) -> None:
    good, bad = make_file("good.hdf5", size=(8, 8)), make_file("bad.hdf5", size=(8, 8), seed=3)
    with h5py.File(bad, "r+") as file:
        del file["data/demo_2/actions"]
    before = sorted(tmp_path.iterdir())
    assert main(["data", "convert", str(bad), str(tmp_path / out), "--images"]) == 2
    assert sorted(tmp_path.iterdir()) == before
    with open_dataset(good) as reader:  # a writer that is cut off, as by a kill, after two demonstrations
        options = replace(write_options(reader, ConvertOptions(video=False)), fps=20)
        writer = create_dataset(tmp_path / out, options)
        for episode in list(read_episodes(reader, reader.episode_names))[:2]:
            writer.add(episode)
        writer._lock.release()  # type: ignore[attr-defined]
    assert (tmp_path / f"{out}.partial").exists()
    assert main(["data", "convert", str(good), str(tmp_path / out), "--images", "--fps", "20"]) == 0
    with open_dataset(tmp_path / out) as reader:
        assert len(reader.episode_names) == 3
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / out])


def test_a_conversion_throws_away_nothing_that_can_be_resumed(tmp_path: Path, make_file: MakeFile) -> None:
    out, source = tmp_path / "out.hdf5", make_file("good.hdf5", size=(8, 8))
    kept = RobomimicWriter(out, env_args={})
    kept.add_episode(None, np.zeros((3, 2)), {})
    kept._lock.release()
    with pytest.raises(UserError, match="an unfinished file with 1 demonstrations"):
        convert(source, out)
    assert RobomimicWriter(out, env_args={}, resume=True).episode_names == ["demo_0"]


@pytest.mark.parametrize("out", ["copy.hdf5", "lerobot"])
@pytest.mark.parametrize(
    ("key", "values", "complaint"),
    [
        ("actions", np.float64(1.0), "actions are float64 of shape ()"),
        ("actions", np.zeros((5, 0)), r"actions are float64 of shape \(5, 0\)"),
        ("actions", np.zeros((5, 2), "S3"), "actions are"),
        ("obs/robot0_eef_pos", np.zeros((7, 1)), r"has shape \(7, 1\), but there are 5 actions"),
        ("obs/robot0_eef_pos", np.float64(1.0), r"has shape \(\), but there are 5 actions"),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(
    out: str, key: str, values: Any, complaint: str, make_file: MakeFile, tmp_path: Path
) -> None:
    path = make_file()
    with h5py.File(path, "r+") as file:
        del file[f"data/demo_0/{key}"]
        file[f"data/demo_0/{key}"] = values
    with pytest.raises(UserError, match=rf"{path}: demo_0: .*{complaint}"):
        convert(path, tmp_path / out, ConvertOptions(fps=10))
    assert not (tmp_path / out).exists()


@pytest.mark.parametrize(("side", "codec"), [(24, "libx264"), (62, "libx264"), (64, "libsvtav1")])
def test_small_pictures_become_h264(side: int, codec: str, tmp_path: Path) -> None:
    writer, frames = video_writer.VideoWriter(tmp_path, fps=10), pictures(1, 4, (side, side + 32))
    writer.add(frames)
    writer.close()
    assert writer.codec == codec
    with av.open(str(next(tmp_path.rglob("*.mp4")))) as video:
        read = np.array([frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)])
    assert read.shape == frames.shape
    assert np.abs(read.astype(float) - frames).mean() < 3


def test_encoding_leaves_no_thread_in_real_time(tmp_path: Path) -> None:
    writer = video_writer.VideoWriter(tmp_path, fps=10)
    writer.add(pictures(0, 3, (64, 64)))  # run as root, the AV1 encoder asks for the highest priority
    tasks = [os.sched_getscheduler(int(task.name)) for task in Path("/proc/self/task").iterdir()]
    assert set(tasks) <= {os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE}
    writer.close()
    assert os.sched_getscheduler(0) != os.SCHED_FIFO
