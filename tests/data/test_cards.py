"""Cards: a dataset seen through slices, scales, rates and sizes; what cannot be mapped is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from raw_datasets import MakeFile
from raw_lerobot import CAMERA, actions, states, write_v21, write_v30, write_zarr

from beacon.cli.main import main
from beacon.data import EpisodeSet, load_domains
from beacon.data.card import read_card
from beacon.data.formats import open_dataset
from beacon.data.images import fit_images
from beacon.data.resampling import resample, step_frames, step_of_frame
from beacon.data.selectors import Selector
from beacon.errors import UserError


def card(folder: Path, dataset: Path, **values: object) -> Path:
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump({"path": str(dataset), **values}))
    return path


def test_slices_scales_names_and_episodes(tmp_path: Path) -> None:
    path = card(
        tmp_path,
        write_v21(tmp_path / "data"),
        cameras={"front": CAMERA},
        proprio={
            "eef_pos": "observation.state[0:3]",
            "gripper": {"keys": ["observation.state[-1]"], "scale": 10, "offset": 1},
            "both": ["observation.state[3]", "observation.state[0]"],
        },
        actions={"keys": ["action[2]", "action[0:2]"], "scale": [2, 1, 1], "offset": -0.5, "clip": [-1, 1]},
        episodes="1:3",
    )
    episodes = EpisodeSet.load(path)
    assert episodes.episode_names == ["episode_1", "episode_2"] and list(episodes.images) == ["front"]
    state, action = states(1, 5), actions(1, 5)
    first = episodes.episode(0)
    np.testing.assert_allclose(first.obs["eef_pos"], state[:, :3])
    np.testing.assert_allclose(first.obs["gripper"], state[:, 3:] * 10 + 1, rtol=1e-6)
    np.testing.assert_allclose(first.obs["both"], state[:, [3, 0]])
    expected = np.clip(action[:, [2, 0, 1]] * [2, 1, 1] - 0.5, -1, 1)
    np.testing.assert_allclose(first.actions, expected, rtol=1e-6)
    with open_dataset(path) as reader:
        assert reader.dimension_names("actions") == ["z", "x", "y"]


def test_a_card_with_a_path_alone_changes_nothing(tmp_path: Path, make_file: MakeFile) -> None:
    for dataset in (make_file(), write_v30(tmp_path / "lerobot"), write_zarr(tmp_path / "zarr")):
        plain, through = EpisodeSet.load(dataset), EpisodeSet.load(card(tmp_path, dataset))
        np.testing.assert_array_equal(plain.actions, through.actions)
        assert list(plain.proprio) == list(through.proprio) and list(plain.images) == list(through.images)
        for key, images in plain.images.items():
            np.testing.assert_array_equal(images, through.images[key])


def test_several_datasets_in_one_card(tmp_path: Path, make_file: MakeFile) -> None:
    make_file("monday.hdf5", lengths=(4, 5))
    make_file("tuesday.hdf5", lengths=(3,), seed=2)
    (tmp_path / "card.yaml").write_text("path: [monday.hdf5, tuesday.hdf5]\nepisodes: '1:'\n")
    episodes = EpisodeSet.load(tmp_path / "card.yaml")
    assert episodes.lengths.tolist() == [5, 3] and episodes.path == tmp_path / "card.yaml"
    assert episodes.episode_names == ["monday/demo_1", "tuesday/demo_0"]
    (tmp_path / "card.yaml").write_text("path: []\n")
    with pytest.raises(UserError, match="path"):
        open_dataset(tmp_path / "card.yaml")


def test_relative_paths_start_at_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_v21(tmp_path / "data")
    (tmp_path / "card.yaml").write_text("path: data\n")
    monkeypatch.chdir("/")
    assert len(EpisodeSet.load(tmp_path / "card.yaml")) == 3


@pytest.mark.parametrize("choice", ["0:2", [0, 1], ["episode_0", "episode_1"], ":2", "-3:-1"])
def test_episodes(tmp_path: Path, choice: object) -> None:
    path = card(tmp_path, write_v21(tmp_path / "data"), episodes=choice)
    assert EpisodeSet.load(path).episode_names == ["episode_0", "episode_1"]


def test_a_mask_chooses_episodes(tmp_path: Path, make_file: MakeFile) -> None:
    path = card(tmp_path, make_file(masks={"train": ["demo_2", "demo_0"]}), episodes="train")
    assert EpisodeSet.load(path).episode_names == ["demo_0", "demo_2"]


def test_another_rate(tmp_path: Path) -> None:
    data = write_v21(tmp_path / "data", lengths=(7, 6), fps=10)
    path = card(
        tmp_path, data, fps=5, actions={"keys": ["action[0:2]", "action[2]"], "resample": ["sum", "hold"]}
    )
    with open_dataset(path) as reader:
        assert reader.fps == 5
        frames = reader.read("episode_0", f"obs/{CAMERA}")
        steps = reader.step_of_frame("episode_0")
    episodes = EpisodeSet.load(path)
    assert episodes.lengths.tolist() == [4, 3]
    action = actions(0, 7).astype(float)
    sums = [action[0:2, :2].sum(0), action[2:4, :2].sum(0), action[4:6, :2].sum(0), action[6, :2]]
    np.testing.assert_allclose(episodes.actions[:4, :2], sums, rtol=1e-5)
    np.testing.assert_allclose(episodes.actions[:4, 2], action[::2, 2], rtol=1e-6)
    with open_dataset(data) as reader:
        np.testing.assert_array_equal(frames, reader.read("episode_0", f"obs/{CAMERA}")[::2])
    np.testing.assert_array_equal(episodes.proprio["observation.state"][:4], states(0, 7)[::2])
    assert steps.tolist() == [0, 0, 1, 1, 2, 2, 3]


@given(
    frames=st.integers(1, 200),
    recorded=st.sampled_from([5.0, 10.0, 15.0, 20.0, 29.97, 30.0, 50.0]),
    wanted=st.sampled_from([5.0, 10.0, 15.0, 20.0, 30.0, 50.0]),
)
def test_resampling_keeps_what_it_should(frames: int, recorded: float, wanted: float) -> None:
    begin = step_frames(frames, recorded, wanted)
    assert begin[0] == 0 and (np.diff(begin) >= 0).all() and begin[-1] < frames
    assert abs(len(begin) / wanted - frames / recorded) <= 1 / wanted + 1e-6
    values = np.random.default_rng(frames).normal(size=(frames, 2))
    np.testing.assert_allclose(resample(values, begin, "sum").sum(0), values.sum(0), atol=1e-9)
    np.testing.assert_array_equal(resample(values, begin, "hold"), values[begin])
    owner = step_of_frame(frames, begin)
    assert owner[0] >= 0 and owner[-1] == len(begin) - 1 and (np.diff(owner) >= 0).all()
    if recorded == wanted:
        assert owner.tolist() == list(range(frames))


def test_deltas_and_absolute_actions_are_inverse(tmp_path: Path) -> None:
    data = write_v21(tmp_path / "data")
    options = {"keys": ["action"], "pose": "observation.state[0:2]"}
    delta = EpisodeSet.load(
        card(tmp_path, data, actions=options | {"convert": "to-delta", "scale": 4})
    ).actions
    expected = actions(0, 7).astype(float)
    expected[:, :2] -= states(0, 7)[:, :2]
    np.testing.assert_allclose(delta[:7], expected * 4, rtol=1e-5)
    absolute = EpisodeSet.load(card(tmp_path, data, actions=options | {"convert": "to-absolute"})).actions
    np.testing.assert_allclose(absolute[:7, :2] - states(0, 7)[:, :2], actions(0, 7)[:, :2], atol=1e-6)
    np.testing.assert_array_equal(absolute[:7, 2], actions(0, 7)[:, 2])


def test_image_sizes_and_colours(tmp_path: Path) -> None:
    data = write_v21(tmp_path / "data", images=True)
    for fit in ("stretch", "pad", "crop"):
        path = card(tmp_path, data, image_size=16, image_fit=fit, cameras={"front": {"key": CAMERA}})
        images = EpisodeSet.load(path).images["front"]
        assert images.shape[1:] == (16, 16, 3)
        borders = images[0, [0, -1]].max() == 0
        assert borders == (fit == "pad")
    turned = card(tmp_path, data, cameras={"front": {"key": CAMERA, "channels": "bgr", "rotate": True}})
    plain = EpisodeSet.load(data).images[CAMERA]
    np.testing.assert_array_equal(EpisodeSet.load(turned).images["front"], plain[:, ::-1, ::-1, ::-1])


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_every_shape_fits_into_every_size(height: int, width: int, new_height: int, new_width: int) -> None:
    frames = np.full((1, height, width, 3), 200, np.uint8)
    for fit in ("stretch", "pad", "crop"):
        fitted = fit_images(frames, (new_height, new_width), fit)  # type: ignore[arg-type]
        assert fitted.shape == (1, new_height, new_width, 3)
        assert fit == "pad" or fitted.min() == 200


BAD: dict[str, tuple[dict[str, object], str]] = {
    "camera": (
        {"cameras": {"front": "observation.images.fron"}},
        "cameras.front: 'observation.images.fron' is not",
    ),
    "vector": ({"proprio": {"x": "observation.stat[0]"}}, "'observation.stat[0]' is not in"),
    "beyond": ({"proprio": {"x": "observation.state[2:9]"}}, "which has 4 dimensions"),
    "nothing": ({"proprio": {"x": "observation.state[3:3]"}}, "chooses nothing"),
    "selector": ({"proprio": {"x": "state[a]"}}, "write KEY, KEY[3] or KEY[0:3]"),
    "scales": ({"actions": {"keys": ["action"], "scale": [1, 2]}}, "2 numbers for 3 dimensions"),
    "clip": ({"actions": {"clip": [1, -1]}}, "smaller"),
    "no keys": ({"actions": {"keys": []}}, "actions.keys is empty"),
    "rate": ({"fps": 5}, "say how actions are resampled"),
    "rate 0": ({"fps": 0}, "must be above 0"),
    "pose alone": ({"actions": {"pose": "observation.state"}}, "belongs together"),
    "pose wide": (
        {"actions": {"pose": "observation.state", "convert": "to-delta"}},
        "more dimensions than the 3",
    ),
    "resample": ({"fps": 5, "actions": {"resample": ["sum", "hold"]}}, "2 entries for 1 keys"),
    "episodes": ({"episodes": "some"}, "neither a range"),
    "no episode": ({"episodes": [7]}, "has no 7"),
    "none": ({"episodes": "5:9"}, "none of the 3"),
    "unquoted": ({"episodes": 110}, "in quotes"),
    "unknown": ({"camera": {}}, "there is no such option"),
    "type": ({"image_size": "big"}, "image_size"),
    "fit": ({"image_fit": "squash"}, "image_fit"),
    "both": ({"cameras": {"x": CAMERA}, "proprio": {"x": "observation.state"}}, "both a camera and"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_cards_are_one_line(tmp_path: Path, case: str) -> None:
    values, text = BAD[case]
    path = card(tmp_path, write_v21(tmp_path / "data", lengths=(3, 3, 3)), **values)
    with pytest.raises(UserError) as caught:
        EpisodeSet.load(path)
    assert text in str(caught.value) and "\n" not in str(caught.value) and "card.yaml" in str(caught.value)


def test_files_that_are_no_cards(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\npath: data\n"
    for text, message in (
        ("hello", "not a dataset card"),
        ("{", "is not YAML"),
        ("[1, 2]", "not a dataset card"),
        ("path: 5", "a path expected"),
        ("path: gone", "no such file"),
        ("path: card.yaml", "is a card that names cards"),
        (bomb, "aliases"),
        ("path: !!python/object/apply:os.system ['true']", "is not YAML"),
    ):
        (tmp_path / "card.yaml").write_text(text)
        with pytest.raises(UserError, match=message):
            open_dataset(tmp_path / "card.yaml")
    (tmp_path / "card.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not YAML"):
        open_dataset(tmp_path / "card.yaml")


def test_the_command_writes_a_card_that_reads_the_same(
    tmp_path: Path, make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    for dataset in (make_file(), write_v30(tmp_path / "lerobot"), write_zarr(tmp_path / "zarr")):
        assert main(["data", "card", str(dataset)]) == 0
        text = capsys.readouterr().out
        path = tmp_path / "card.yaml"
        path.write_text(text)
        assert "What there is" in text
        np.testing.assert_array_equal(EpisodeSet.load(path).actions, EpisodeSet.load(dataset).actions)
        assert read_card(path).paths == (dataset.resolve(),)
        assert main(["data", "card", str(dataset), "--out", str(tmp_path / "new.yaml")]) == 0
        capsys.readouterr()
        assert read_card(tmp_path / "new.yaml").paths[0].resolve() == dataset.resolve()
        assert 'episodes: "0:' in text  # without quotes, 1:3 would be minutes and seconds once it is edited
    assert "proprio: {}  # no known name; name what the robot can measure of state\n" in text  # of zarr
    assert main(["data", "card", str(path)]) == 2


def test_simulation_and_a_real_robot_through_a_card(tmp_path: Path, make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5", size=(16, 16), action_dim=3)
    real = card(
        tmp_path,
        write_v21(tmp_path / "real"),
        cameras={"agentview_image": CAMERA},
        proprio={"robot0_eef_pos": "observation.state[0:3]", "robot0_gripper_qpos": "observation.state[2:4]"},
        image_size=16,
    )
    with pytest.warns(match="robot0_eef_quat"):
        sets = load_domains([sim, real])
    assert list(sets[1].images) == ["agentview_image"]
    assert list(sets[0].proprio) == ["robot0_eef_pos", "robot0_gripper_qpos"] == list(sets[1].proprio)


@given(st.text(max_size=20))
def test_selectors_never_end_in_a_traceback(text: str) -> None:
    try:
        selector = Selector.parse(text)
    except UserError:
        return
    assert selector.key and isinstance(selector.dimensions, slice)


def test_a_card_of_nothing_is_one_line(tmp_path: Path, make_file: MakeFile) -> None:
    path = make_file()
    with h5py.File(path, "r+") as file:
        for name in list(file["data"]):
            del file[f"data/{name}"]
    assert main(["data", "card", str(path)]) == 2
    assert main(["data", "inspect", str(card(tmp_path, path))]) == 2


@pytest.mark.parametrize("values", [np.float64(1.0), np.zeros((0, 3)), np.zeros((5, 0))])
def test_arrays_without_ranges_are_listed(
    values: Any, make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file()
    with h5py.File(path, "r+") as file:
        file["data/demo_0/obs/odd"] = values
    assert main(["data", "card", str(path)]) == 0
    assert "odd" in capsys.readouterr().out


def test_names_with_line_breaks_add_no_line_to_a_card(
    tmp_path: Path, make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file()
    with h5py.File(path, "r+") as file:
        file["data/demo_0/obs/odd\nfps: 7"] = np.zeros((5, 2))
    assert main(["data", "card", str(path)]) == 0
    (tmp_path / "card.yaml").write_text(capsys.readouterr().out)
    assert read_card(tmp_path / "card.yaml").fps != 7
