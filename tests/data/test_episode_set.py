"""Loading: what is read, from where to where, and in how much memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_datasets import ENV_ARGS, Edit, MakeFile

from beacon.data import (
    DataWarning,
    EpisodeSet,
    ObservationMapping,
    load_domains,
    parse_rename,
    resolve_mapping,
)
from beacon.data.formats import open_dataset
from beacon.errors import RunError, UserError


def stored(path: Path, episode: str, name: str) -> np.ndarray:
    with h5py.File(path) as file:
        return np.asarray(file[f"data/{episode}/{name}"][()])


@pytest.mark.parametrize("mimicgen", [False, True])
def test_load_gives_exactly_what_is_stored(make_file: MakeFile, mimicgen: bool) -> None:
    path = make_file(mimicgen=mimicgen)
    episodes = EpisodeSet.load(path)
    assert episodes.name == "demos" and episodes.path == path
    assert episodes.episode_names == ["demo_0", "demo_1", "demo_2"]
    assert episodes.lengths.tolist() == [5, 3, 4] and episodes.starts.tolist() == [0, 5, 8]
    assert episodes.frames == 12 and len(episodes) == 3
    assert list(episodes.proprio) == ["robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos"]
    assert list(episodes.images) == ["agentview_image"]
    assert episodes.env_args == ENV_ARGS
    assert episodes.episode_attributes[1] == {"num_samples": 3, "seed": 101}  # and no model_file
    assert episodes.actions.dtype == np.float32 and episodes.actions.shape == (12, 7)
    for e, name in enumerate(episodes.episode_names):
        episode = episodes.episode(e)
        np.testing.assert_array_equal(episode.actions, stored(path, name, "actions").astype(np.float32))
        for key in episode.obs:
            expected = stored(path, name, f"obs/{key}")
            np.testing.assert_array_equal(episode.obs[key], expected.astype(episode.obs[key].dtype))
        assert episode.obs["agentview_image"].dtype == np.uint8


def test_demos_are_sorted_by_number(make_file: MakeFile) -> None:
    path = make_file(names=["demo_10", "demo_9", "demo_100"], lengths=(2, 3, 4))
    episodes = EpisodeSet.load(path)
    assert episodes.episode_names == ["demo_9", "demo_10", "demo_100"]
    assert episodes.lengths.tolist() == [3, 2, 4]


def test_mask_and_limit(make_file: MakeFile) -> None:
    path = make_file(
        lengths=(2, 3, 4, 5), masks={"train": ["demo_3", "demo_0", "demo_1"], "valid": ["demo_2"]}
    )
    assert EpisodeSet.load(path, mask="train").episode_names == ["demo_0", "demo_1", "demo_3"]
    assert EpisodeSet.load(path, mask="train", limit=2).lengths.tolist() == [2, 3]
    assert EpisodeSet.load(path, limit=3).episode_names == ["demo_0", "demo_1", "demo_2"]


def test_chosen_and_renamed_keys(make_file: MakeFile) -> None:
    path = make_file(cameras=("agentview_image", "robot0_eye_in_hand_image"))
    mapping = ObservationMapping(
        cameras=("front",),
        proprio=("object", "hand"),
        rename={"agentview_image": "front", "robot0_eef_pos": "hand"},
    )
    episodes = EpisodeSet.load(path, mapping=mapping)
    assert list(episodes.images) == ["front"] and list(episodes.proprio) == ["object", "hand"]
    np.testing.assert_array_equal(episodes.images["front"][:5], stored(path, "demo_0", "obs/agentview_image"))
    none = EpisodeSet.load(path, mapping=ObservationMapping(cameras=(), proprio=()))
    assert none.images == {} and none.proprio == {}


def test_depth_and_segmentation_are_not_taken_for_cameras(make_file: MakeFile, edit: Edit) -> None:
    path = make_file()
    with edit(path) as file:
        for demo in file["data"].values():
            length = len(demo["actions"])
            demo["obs/agentview_depth"] = np.zeros((length, 6, 8, 1), np.float32)
            demo["obs/agentview_segmentation_instance"] = np.zeros((length, 6, 8, 1), np.uint8)
    assert list(EpisodeSet.load(path).images) == ["agentview_image"]


def test_links_are_followed(make_file: MakeFile, edit: Edit) -> None:
    path = make_file(lengths=(5, 5))
    with edit(path) as file:
        file["store"] = file["data/demo_0/obs/agentview_image"][()]
        del file["data/demo_0/obs/agentview_image"]
        file["data/demo_0/obs/agentview_image"] = h5py.SoftLink("/store")
    np.testing.assert_array_equal(
        EpisodeSet.load(path).images["agentview_image"][:5], stored(path, "demo_0", "obs/agentview_image")
    )


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_resize_averages_when_shrinking(make_file: MakeFile, edit: Edit, channels: int) -> None:
    path = make_file(lengths=(2,), cameras=())
    rng = np.random.default_rng(0)
    smooth = np.kron(rng.integers(0, 256, (2, 4, 6, channels)), np.ones((1, 8, 8, 1))).astype(np.uint8)
    with edit(path) as file:
        file["data/demo_0/obs/cam"] = smooth  # 32 × 48, in blocks of 8 × 8
    half = EpisodeSet.load(path, mapping=ObservationMapping(image_size=(4, 6))).images["cam"]
    assert half.shape == (2, 4, 6, channels) and half.dtype == np.uint8
    # Antialiased bilinear weights reach into the neighbours, so check the mean exactly and pixels loosely.
    assert abs(half.mean() - smooth.mean()) < 4
    centre = smooth[:, 4::8, 4::8].astype(float)
    assert np.corrcoef(half.ravel(), centre.ravel())[0, 1] > 0.9
    same = EpisodeSet.load(path, mapping=ObservationMapping(image_size=(32, 48))).images["cam"]
    np.testing.assert_array_equal(same, smooth)
    assert EpisodeSet.load(path, mapping=ObservationMapping(image_size=5)).images["cam"].shape[1:3] == (5, 5)


def test_mapped_equals_in_memory_and_is_found_again(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file(cameras=("a_image", "b_image"))
    cache = tmp_path / "cache"
    plain = EpisodeSet.load(path)
    mapped = EpisodeSet.load(path, memory_limit_bytes=100, cache_dir=cache)
    assert not isinstance(plain.images["a_image"], np.memmap)
    for camera in ("a_image", "b_image"):
        assert isinstance(mapped.images[camera], np.memmap)
        np.testing.assert_array_equal(mapped.images[camera], plain.images[camera])
    files = sorted(cache.iterdir())
    assert [file.suffix for file in files] == [".npy", ".npy"]  # nothing temporary is left
    before = [file.stat().st_mtime_ns for file in files]
    again = EpisodeSet.load(path, memory_limit_bytes=100, cache_dir=cache)
    assert [file.stat().st_mtime_ns for file in sorted(cache.iterdir())] == before
    np.testing.assert_array_equal(again.images["b_image"], plain.images["b_image"])
    # Another selection or another version of the file is another entry.
    few = EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=cache, limit=1)
    assert few.images["a_image"].shape[0] == 5 and len(list(cache.iterdir())) == 4
    os.utime(path, ns=(1, 1))
    EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=cache, limit=1)
    assert len(list(cache.iterdir())) == 6


def test_a_damaged_cache_is_made_again(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file()
    EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:200])
    again = EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(
        again.images["agentview_image"], EpisodeSet.load(path).images["agentview_image"]
    )


def test_failed_mapping_leaves_nothing_behind(make_file: MakeFile, edit: Edit, tmp_path: Path) -> None:
    path = make_file()
    with edit(path) as file:
        del file["data/demo_2/obs/agentview_image"]
    with pytest.raises(UserError, match="demo_2"):
        EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_full_disk_while_mapping(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file(lengths=(50, 50), size=(16, 16))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(RunError, match=r"cannot write .*cache"):
            EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "cache").iterdir()) == []


def test_subset_shares_the_images(make_file: MakeFile) -> None:
    episodes = EpisodeSet.load(make_file(lengths=(2, 3, 4)))
    some = episodes.subset([2, 0])
    assert some.episode_names == ["demo_2", "demo_0"] and some.frames == 6
    assert some.starts.tolist() == [0, 4] and some.image_starts.tolist() == [5, 0]
    assert np.shares_memory(some.images["agentview_image"], episodes.images["agentview_image"])
    for new, old in ((0, 2), (1, 0)):
        ours, theirs = some.episode(new), episodes.episode(old)
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        for key in ours.obs:
            np.testing.assert_array_equal(ours.obs[key], theirs.obs[key])
        assert ours.attributes == theirs.attributes
    with pytest.raises(UserError, match="without any demonstration"):
        episodes.subset([])
    with pytest.raises(IndexError, match=r"0\.\.2"):
        episodes.subset([3])


def test_common_keys_of_domains(make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5", cameras=("agentview_image", "side_image"))
    real = make_file("real.hdf5", cameras=("front",), proprio={"robot0_eef_pos": 3})
    with pytest.raises(UserError, match=r"no camera is common.*agentview_image, side_image.*front.*--rename"):
        load_domains([sim, real])
    mapping = ObservationMapping(rename=parse_rename(["agentview_image=front"]))
    with pytest.warns(DataWarning, match="side_image"), pytest.warns(DataWarning, match="robot0_eef_quat"):
        sets = load_domains([sim, real], mapping=mapping)
    assert [s.name for s in sets] == ["sim", "real"]
    for episodes in sets:
        assert list(episodes.images) == ["front"] and list(episodes.proprio) == ["robot0_eef_pos"]


def test_a_rename_that_no_domain_needs_is_refused(make_file: MakeFile) -> None:
    with pytest.raises(
        UserError, match=r"agentview_imag=front: no dataset has 'agentview_imag'.*agentview_image"
    ):
        resolve_mapping([make_file()], ObservationMapping(rename={"agentview_imag": "front"}))


def test_memory_limit_is_for_all_domains_together(make_file: MakeFile, tmp_path: Path) -> None:
    paths = [make_file(f"{name}.hdf5", seed=i) for i, name in enumerate("abc")]
    size = 12 * 6 * 8 * 3
    sets = load_domains(paths, memory_limit_bytes=2 * size, cache_dir=tmp_path / "cache")
    assert [isinstance(s.images["agentview_image"], np.memmap) for s in sets] == [False, False, True]


def test_domains_of_one_name_get_longer_ones(make_file: MakeFile) -> None:
    paths = [make_file("sim/demos.hdf5"), make_file("real/demos.hdf5", masks={"train": ["demo_1"]})]
    assert [s.name for s in load_domains(paths)] == ["sim/demos", "real/demos"]
    both = load_domains([paths[1], paths[1]], masks=[None, "train"], limits=[2, None])
    assert [s.name for s in both] == ["demos", "demos:train"] and [len(s) for s in both] == [2, 1]


def test_reader_lists_everything_in_a_demo(make_file: MakeFile) -> None:
    with open_dataset(make_file(mimicgen=True)) as reader:
        names = set(reader.arrays("demo_0"))
        assert {"actions", "states", "obs/object", "datagen_info/eef_pose", "src_demo_inds"} <= names
        assert reader.info("demo_0", "obs/agentview_image").shape == (5, 6, 8, 3)
