"""What cards do with actions and rates: rotations, names, the target's rate, several cards as one domain."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from raw_datasets import MakeFile
from raw_lerobot import actions, write_v21
from scipy.spatial.transform import Rotation

from beacon.cli.main import main
from beacon.data import DataWarning, Episode, EpisodeSet, load_domains, write_robomimic
from beacon.data.rotations import compose, difference
from beacon.errors import UserError


def write_card(path: Path, dataset: Path | list[str], **values: object) -> Path:
    path.write_text(
        yaml.safe_dump({"path": dataset if isinstance(dataset, list) else str(dataset), **values})
    )
    return path


def targets_and_poses() -> tuple[NDArray[Any], NDArray[Any], Rotation, Rotation]:
    """Absolute targets (position, axis-angle, gripper) and poses (position, quaternion) of an arm."""
    rng = np.random.default_rng(0)
    here = Rotation.from_quat(rng.normal(size=(6, 4)))
    goal = Rotation.from_rotvec(rng.uniform(-0.2, 0.2, (6, 3))) * here
    position = rng.normal(size=(6, 3))
    pose = np.concatenate([position, here.as_quat()], axis=1)
    target = np.concatenate([position + 0.1, goal.as_rotvec(), rng.choice([-1.0, 1.0], (6, 1))], axis=1)
    return target, pose, goal, here


@pytest.mark.parametrize("frame", ["world", "body"])
def test_orientations_are_turned_back_not_subtracted(tmp_path: Path, frame: str) -> None:
    target, pose, goal, here = targets_and_poses()
    data = tmp_path / "arm.hdf5"
    obs = {"position": pose[:, :3], "orientation": pose[:, 3:]}
    write_robomimic(data, [Episode("demo_0", target, obs)], env_args={})
    options = {
        "pose": "position",
        "rotations": [{"dimensions": "3:6", "pose": "orientation", "frame": frame}],
    }
    path = write_card(
        tmp_path / "card.yaml", data, proprio={}, actions=options | {"convert": "to-delta", "scale": 2}
    )
    deltas = EpisodeSet.load(path).actions / 2
    np.testing.assert_allclose(deltas[:, :3], 0.1, atol=1e-6)
    turned = goal * here.inv() if frame == "world" else here.inv() * goal
    np.testing.assert_allclose(deltas[:, 3:6], turned.as_rotvec(), atol=1e-6)
    np.testing.assert_allclose(deltas[:, 6], target[:, 6])
    write_robomimic(tmp_path / "delta.hdf5", [Episode("demo_0", deltas, obs)], env_args={})
    path = write_card(
        tmp_path / "back.yaml",
        tmp_path / "delta.hdf5",
        proprio={},
        actions=options | {"convert": "to-absolute"},
    )
    back = EpisodeSet.load(path).actions
    np.testing.assert_allclose(back[:, :3], target[:, :3], atol=1e-5)
    same = Rotation.from_rotvec(back[:, 3:6]) * goal.inv()
    np.testing.assert_allclose(same.magnitude(), 0, atol=1e-5)


@pytest.mark.parametrize("written", ["axis-angle", "euler-xyz", "quaternion"])
@pytest.mark.parametrize("pose_written", ["axis-angle", "euler-xyz", "quaternion"])
def test_every_way_to_write_a_rotation(written: Any, pose_written: Any) -> None:
    *_, goal, here = targets_and_poses()

    def write(rotation: Rotation, form: str) -> NDArray[Any]:
        if form == "axis-angle":
            return np.asarray(rotation.as_rotvec())
        return np.asarray(rotation.as_euler("xyz") if form == "euler-xyz" else rotation.as_quat())

    pose = write(here, pose_written)
    change = difference(write(goal, written), pose, target_as=written, pose_as=pose_written, frame="world")
    np.testing.assert_allclose(change, _canonical(write(goal * here.inv(), written)), atol=1e-9)
    again = compose(change, pose, change_as=written, pose_as=pose_written, frame="world")
    np.testing.assert_allclose(again, _canonical(write(goal, written)), atol=1e-9)


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    return values * np.where(values[:, 3:] < 0, -1, 1) if values.shape[1] == 4 else values


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "too few": ({"dimensions": "0:2", "pose": "observation.state"}, "axis-angle has 3"),
    "pose": ({"dimensions": "0:3", "pose": "observation.state[0:2]"}, "quaternion has 4"),
    "absent": ({"dimensions": "0:3", "pose": "orientation"}, "'orientation' is not in"),
    "form": ({"dimensions": "0:3", "pose": "observation.state", "written": "matrix"}, "written"),
    "dimensions": ({"dimensions": "a", "pose": "observation.state"}, "write KEY"),
}


@pytest.mark.parametrize("case", BAD)
def test_rotations_that_cannot_be(tmp_path: Path, case: str) -> None:
    rotation, text = BAD[case]
    options = {"convert": "to-delta", "rotations": [rotation]}
    path = write_card(tmp_path / "card.yaml", write_v21(tmp_path / "data"), actions=options)
    with pytest.raises(UserError) as caught:
        EpisodeSet.load(path)
    assert text in str(caught.value) and "\n" not in str(caught.value) and "card.yaml" in str(caught.value)


def test_what_is_subtracted_is_not_turned_as_well(tmp_path: Path) -> None:
    options = {
        "convert": "to-delta",
        "pose": "observation.state[0:2]",
        "rotations": [{"dimensions": "0:3", "pose": "observation.state"}],
    }
    path = write_card(tmp_path / "card.yaml", write_v21(tmp_path / "data"), actions=options)
    with pytest.raises(UserError, match="converted twice"):
        EpisodeSet.load(path)


def test_names_of_actions(tmp_path: Path, make_file: MakeFile) -> None:
    data = write_v21(tmp_path / "data")
    assert EpisodeSet.load(data).action_names == ("x", "y", "z")
    assert EpisodeSet.load(data).subset([0]).action_names == ("x", "y", "z")
    said = write_card(tmp_path / "a.yaml", data, actions={"names": ["one", "two", "three"]})
    assert EpisodeSet.load(said).action_names == ("one", "two", "three")
    with pytest.raises(UserError, match="2 names for 3 dimensions"):
        EpisodeSet.load(write_card(tmp_path / "b.yaml", data, actions={"names": ["one", "two"]}))
    # Of robosuite, by its controller; and they survive conversion both ways.
    arm = make_file()
    pose = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z", "gripper")
    assert EpisodeSet.load(arm).action_names == pose
    assert main(["data", "convert", str(arm), str(tmp_path / "lerobot")]) == 0
    assert EpisodeSet.load(tmp_path / "lerobot").action_names == pose
    assert main(["data", "convert", str(data), str(tmp_path / "back.hdf5")]) == 0
    assert EpisodeSet.load(tmp_path / "back.hdf5").action_names == ("x", "y", "z")


def test_sources_are_brought_to_the_targets_rate_where_it_is_said_how(tmp_path: Path) -> None:
    slow = write_v21(tmp_path / "slow", fps=5, lengths=(4, 3, 5))
    fast = write_v21(tmp_path / "fast", fps=10, lengths=(7, 6, 5))
    said = write_card(tmp_path / "fast.yaml", fast, actions={"resample": "sum"})
    with pytest.warns(DataWarning, match=r"fast.yaml: brought from 10 Hz to 5 Hz, the rate of slow"):
        sets = load_domains([said, slow], target=1)
    assert sets[0].lengths.tolist() == [4, 3, 3] and sets[0].fps == 5 and sets[0].brought_to == 5
    action = actions(0, 7).astype(float)
    np.testing.assert_allclose(sets[0].actions[0], action[:2].sum(0), rtol=1e-5)
    # Without a word on how, nothing is changed, and that is said.
    with pytest.warns(DataWarning, match="control rates differ: fast has 10 Hz, slow 5 Hz"):
        sets = load_domains([fast, slow], target=1)
    assert sets[0].lengths.tolist() == [7, 6, 5] and sets[0].brought_to is None
    # Alone, or with a rate of its own, a card is what it says.
    assert EpisodeSet.load(said).lengths.tolist() == [7, 6, 5]
    own = write_card(tmp_path / "own.yaml", fast, fps=10, actions={"resample": "sum"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert load_domains([own, slow], target=1)[0].lengths.tolist() == [7, 6, 5]


def test_check_agrees_on_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = write_v21(tmp_path / "slow", fps=5)
    fast = write_v21(tmp_path / "fast", fps=10)
    main(["data", "check", str(fast), str(slow)])
    assert "control frequencies differ" in capsys.readouterr().out
    said = write_card(tmp_path / "fast.yaml", fast, actions={"resample": "sum"})
    main(["data", "check", str(said), str(slow)])
    assert "control frequencies differ" not in capsys.readouterr().out


def test_a_card_joins_cards_and_does_nothing_else(tmp_path: Path) -> None:
    data = write_v21(tmp_path / "data")
    first = write_card(tmp_path / "a.yaml", data, episodes="0:1")
    second = write_card(tmp_path / "b.yaml", data, episodes="1:3")
    joint = write_card(tmp_path / "both.yaml", [str(first), str(second)])
    names = EpisodeSet.load(joint).episode_names
    assert names == ["a/episode_0", "b/episode_1", "b/episode_2"]
    with pytest.raises(UserError, match="is a card itself"):
        EpisodeSet.load(write_card(tmp_path / "more.yaml", first, image_size=16))
    with pytest.raises(UserError, match="is a card that names cards"):
        EpisodeSet.load(write_card(tmp_path / "nested.yaml", [str(joint), str(first)]))
    itself = tmp_path / "itself.yaml"
    with pytest.raises(UserError, match="is a card that names cards"):
        EpisodeSet.load(write_card(itself, [str(itself)]))
