"""LeRobot folders of versions 2.1 and 3.0, and diffusion_policy's zarr, give what was put into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_lerobot import (
    AV1_SIZE,
    CAMERA,
    actions,
    brightness,
    pictures,
    states,
    write_info,
    write_v21,
    write_v30,
    write_video,
    write_zarr,
)

from beacon.data import DataWarning, EpisodeSet, ObservationMapping, Windows
from beacon.data.formats import FORMATS, open_dataset
from beacon.data.formats.base import ReadOptions
from beacon.data.formats.lerobot_contents import numpy_name
from beacon.data.formats.video import VideoFile
from beacon.data.images import resize
from beacon.errors import UserError

LENGTHS = (7, 5, 6)
LAYOUTS: dict[str, Any] = {
    "v2.1": lambda path: write_v21(path),
    "v2.1, lists of any length": lambda path: write_v21(path, fixed=False),
    "v2.1, embedded images": lambda path: write_v21(path, images=True),
    "v3.0": lambda path: write_v30(path),
    "v3.0, AV1": lambda path: write_v30(path, codec="libsvtav1", size=AV1_SIZE),
    "v3.0, one row group": lambda path: write_v30(path, row_groups=False),
    "v3.0, two videos": lambda path: write_v30(path, videos_of=[[0], [1, 2]]),
    "v3.0, embedded images": lambda path: write_v30(path, images=True, fixed=False),
    "zarr": lambda path: write_zarr(path),
    "zarr, zipped": lambda path: write_zarr(path.with_suffix(".zarr.zip")),
    "zarr, floats to 255": lambda path: write_zarr(path, floats=255.0),
    "zarr, floats to 1": lambda path: write_zarr(path, floats=1.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_samples(tmp_path: Path, layout: str) -> None:
    path = LAYOUTS[layout](tmp_path / "data")
    state, camera = ("state", "img") if "zarr" in layout else ("observation.state", CAMERA)
    episodes = EpisodeSet.load(path, mapping=ObservationMapping(proprio=(state,)))
    assert episodes.lengths.tolist() == list(LENGTHS) and list(episodes.images) == [camera]
    for e, steps in enumerate(LENGTHS):
        episode = episodes.episode(e)
        np.testing.assert_array_equal(episode.actions, actions(e, steps))
        np.testing.assert_array_equal(episode.obs[state], states(e, steps))
        height, width = episode.obs[camera].shape[1:3]
        middle = slice(height // 4, 3 * height // 4)
        # Right half, which is grey; the codec may be off by a little, the next frame is 5 away.
        grey = episode.obs[camera][:, middle, 2 * width // 3 : -4].astype(float).mean((1, 2, 3))
        assert np.abs(grey - brightness(e, steps)).max() < 2, grey
        red = episode.obs[camera][:, middle, 4 : width // 3, 0]
        assert red.min() > 235, "colours are in the order red, green, blue"
    if "video" not in layout and "image" in layout:
        np.testing.assert_array_equal(episodes.episode(1).obs[camera], pictures(1, 5))


def test_both_versions_of_a_recording_give_the_same_windows(tmp_path: Path) -> None:
    """The same episodes: one video each in version 2.1, joined in version 3.0."""
    sets = [
        EpisodeSet.load(write(tmp_path / name), mapping=ObservationMapping(proprio=("observation.state",)))
        for name, write in (
            ("old", write_v21),
            ("new", lambda path: write_v30(path, videos_of=[[0, 1], [2]])),
        )
    ]
    old, new = (Windows([episodes], obs_steps=2, horizon=4) for episodes in sets)
    assert len(old) == len(new) == sum(LENGTHS)
    a, b = (windows.gather(np.arange(len(windows))) for windows in (old, new))
    np.testing.assert_array_equal(a.actions, b.actions)
    np.testing.assert_array_equal(a.proprio["observation.state"], b.proprio["observation.state"])
    difference = a.images[CAMERA].float() - b.images[CAMERA].float()
    assert difference.abs().mean() < 1 and difference.abs().amax() < 5  # the next frame is 5 away


@pytest.mark.parametrize("layout", ["v2.1", "v3.0"])
def test_what_a_lerobot_folder_says(tmp_path: Path, layout: str) -> None:
    with open_dataset(LAYOUTS[layout](tmp_path / "data")) as reader:
        assert reader.fps == 10 and reader.episode_names == ["episode_0", "episode_1", "episode_2"]
        assert reader.masks == {"train": reader.episode_names}
        assert reader.attributes("episode_1") == {"episode_index": 1, "task": "lift"}
        assert reader.dimension_names("actions") == ["x", "y", "z"]
        assert reader.dimension_names("obs/observation.state") == ["a", "b", "c", "d"]
        index = reader.dataset_index("episode_1")
        assert index is not None and index.tolist() == [7, 8, 9, 10, 11]
        assert reader.proprio_keys == ("observation.state",)
        assert reader.problems() == []
        assert "next.reward" in reader.arrays("episode_0")


def test_frames_are_chosen_by_number_not_by_the_clock(tmp_path: Path) -> None:
    """A recorder's clock that runs ahead of the video must not move the frames."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = write_v21(tmp_path / "data")
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    clock = pa.array(np.cumsum([0, 0.06, 0.27, 0.1, 0.2, 0.2, 0.2]), pa.float32())
    pq.write_table(table.set_column(table.schema.get_field_index("timestamp"), "timestamp", clock), path)
    with open_dataset(root) as reader:
        frames = reader.read("episode_0", f"obs/{CAMERA}")
        assert [p.text for p in reader.problems()] == [
            "time stamps run at about 6 frames a second, info.json says 10; frames are taken by number"
        ]
    assert np.abs(frames[:, 8:24, 32:44].astype(float).mean((1, 2, 3)) - brightness(0, 7)).max() < 2


@pytest.mark.parametrize("b_frames", [0, 2])
def test_video_frames_in_any_order(tmp_path: Path, b_frames: int) -> None:
    levels = (np.arange(700) * 37 % 230 + 10).astype(np.uint8)
    frames = np.repeat(levels, 32 * 32 * 3).reshape(-1, 32, 32, 3)
    write_video(tmp_path / "x.mp4", frames, 30, gop=50, b_frames=b_frames)
    video = VideoFile(tmp_path / "x.mp4")
    assert video.count() == 700 and video.size == (32, 32) and video.rate == 30
    for start, stop in ((0, 3), (3, 5), (40, 44), (600, 605), (5, 9), (699, 700), (0, 1), (299, 303)):
        shown = [float(frame.mean()) for frame in video.frames(start, stop)]
        assert np.abs(np.array(shown) - levels[start:stop]).max() < 2, (start, shown)
    with pytest.raises(UserError, match="ends after 700 frames"):
        list(video.frames(698, 702))
    with pytest.raises(UserError, match="has 700 frames, but number 9000"):
        list(video.frames(9000, 9001))
    video.close()


def test_videos_come_frame_by_frame(tmp_path: Path) -> None:
    root = write_v30(tmp_path / "data", lengths=(40, 33))
    with open_dataset(root) as reader:
        blocks = [len(block) for block in reader.blocks("episode_1", f"obs/{CAMERA}")]
    assert blocks == [1] * 33


def test_jpeg_2000_in_zarr(tmp_path: Path) -> None:
    from imagecodecs.numcodecs import Jpeg2k, register_codecs

    register_codecs(verbose=False)
    path = write_zarr(tmp_path / "data", codec=Jpeg2k(level=0, reversible=True))
    with open_dataset(path) as reader:
        np.testing.assert_array_equal(reader.read("episode_1", "obs/img"), pictures(1, 5))


def test_incomplete_datasets_are_named_and_can_be_skipped(tmp_path: Path) -> None:
    root = write_v21(tmp_path / "data")
    (root / f"videos/chunk-000/{CAMERA}/episode_000001.mp4").unlink()
    with pytest.raises(UserError) as caught:
        open_dataset(root)
    message = str(caught.value)
    assert "1 of 3 episodes" in message and "episode_000001.mp4 is missing" in message
    assert "--skip-incomplete" in message and "skip_incomplete: true in a card" in message
    assert "\n" not in message
    with open_dataset(root, ReadOptions(skip_incomplete=True)) as reader:
        assert reader.episode_names == ["episode_0", "episode_2"]
        assert any("left out" in p.text and "episode_1" in p.text for p in reader.problems())
    with pytest.warns(DataWarning, match="left out, incomplete or without steps: episode_1"):
        loaded = EpisodeSet.load(root, options=ReadOptions(skip_incomplete=True))
    assert loaded.lengths.tolist() == [7, 6]


def test_git_lfs_pointers_and_misplaced_videos(tmp_path: Path) -> None:
    root = write_v21(tmp_path / "pointers")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
    (root / "data/chunk-000/episode_000000.parquet").write_text(pointer)
    with pytest.raises(UserError, match=r"Git LFS pointer.*git lfs pull"):
        open_dataset(root)
    root = write_v21(tmp_path / "misplaced")
    (root / "videos").rename(root / "video")
    with pytest.raises(UserError, match=r"there is a folder 'video', but info.json says 'videos'"):
        open_dataset(root)


def test_mapped_frames_are_found_again_until_the_dataset_changes(tmp_path: Path) -> None:
    root, cache = write_v21(tmp_path / "data"), tmp_path / "cache"
    for _ in range(2):
        loaded = EpisodeSet.load(root, memory_limit_bytes=0, cache_dir=cache)
        assert len(list(cache.glob("*.npy"))) == 1
    write_video(root / f"videos/chunk-000/{CAMERA}/episode_000001.mp4", pictures(3, 5), 10)
    changed = EpisodeSet.load(root, memory_limit_bytes=0, cache_dir=cache)
    assert len(list(cache.glob("*.npy"))) == 2
    assert not np.array_equal(loaded.images[CAMERA], changed.images[CAMERA])
    np.testing.assert_array_equal(changed.images[CAMERA], EpisodeSet.load(root).images[CAMERA])


def test_another_package_can_add_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beacon.data.formats.base import Format
    from beacon.data.formats.robomimic import open_reader

    monkeypatch.setattr(FORMATS, "_parts", dict(FORMATS._parts))
    FORMATS.register("mine")(Format("mine (.mine)", lambda p: p.suffix == ".mine", open_reader))
    (tmp_path / "x.mine").write_text("no")
    with pytest.raises(UserError, match="is not an HDF5 file"):
        open_dataset(tmp_path / "x.mine")


def test_six_digit_file_numbers(tmp_path: Path) -> None:
    root = write_v30(tmp_path / "data")
    write_info(root, data_path="data/chunk-{chunk_index:03d}/file-{file_index:06d}.parquet")
    (root / "data/chunk-000/file-000.parquet").rename(root / "data/chunk-000/file-000000.parquet")
    with open_dataset(root) as reader:
        assert len(reader.read("episode_2", "actions")) == 6


def test_videos_are_decoded_to_a_size_as_pictures_are_resized(tmp_path: Path) -> None:
    root = write_v21(tmp_path / "data")
    small = EpisodeSet.load(root, mapping=ObservationMapping(image_size=(16, 24)))
    whole = EpisodeSet.load(root)
    wanted = resize(np.asarray(whole.images[CAMERA]), (16, 24)).astype(int)
    differences = np.abs(small.images[CAMERA].astype(int) - wanted)
    assert small.images[CAMERA].shape == wanted.shape
    # Colours have half the resolution in a video: next to the edge of the red half they depend on the order.
    away = np.delete(differences, [10, 11, 12, 13], axis=2)
    assert differences.mean() < 2 and away.max() <= 3
    card = tmp_path / "card.yaml"
    card.write_text("path: data\nimage_size: [16, 24]\n")
    np.testing.assert_array_equal(EpisodeSet.load(card).images[CAMERA], small.images[CAMERA])
    with open_dataset(root) as reader:
        blocks = list(reader.sized_blocks("episode_0", f"obs/{CAMERA}", (16, 24)))
    np.testing.assert_array_equal(np.concatenate(blocks), small.images[CAMERA][: len(blocks)])


@pytest.mark.parametrize(
    ("declared", "name"),
    [("float32", "float32"), ("bool", "bool"), ("video", "object"), ("1e+308", "object"), ("", "object")],
)
def test_types_that_numpy_does_not_know_are_no_numbers(declared: str, name: str) -> None:
    assert numpy_name(declared) == name
