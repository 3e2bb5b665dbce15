"""What training leaves is what a robot's program loads: names, damaged averages, the quick start's lines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from demonstrations import make_dataset
from safetensors.torch import load_file, save_file
from serving_inputs import save_sim_policy
from tiny_runs import tiny_config

import beacon
from beacon import load_policy
from beacon.data import open_dataset
from beacon.data.formats.base import Fit
from beacon.data.images import fit_images
from beacon.errors import UserError
from beacon.serving import Limits
from beacon.serving.protocol import describe_policy
from beacon.training import train

QUICK_START = Path(__file__).parent.parent.parent / "docs" / "quick-start.md"


def test_names_before_and_after_rename_are_both_understood(target: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path / "other.hdf5", 3, steps=9, seed=2, camera="front_camera")
    config = tiny_config("cotrain", other, target, data={"rename": ("front_camera=agentview_image",)})
    train(config, tmp_path / "run")
    policy = load_policy(tmp_path / "run")
    image, position = np.full((24, 24, 3), 90, np.uint8), np.zeros(3)
    after = policy.act({"agentview_image": image, "robot0_eef_pos": position})
    policy.reset(0)
    before = policy.act({"front_camera": image, "robot0_eef_pos": position})
    np.testing.assert_array_equal(before, after)


def test_a_policy_knows_what_its_actions_are_called(target: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.yaml"
    card.write_text(f"path: {target}\nrecorded_fps: 12.5\nactions: {{names: [x, y, gripper]}}\n")
    train(tiny_config("target-only", None, card), tmp_path / "run")
    policy = load_policy(tmp_path / "run")
    assert policy.action_names == ("x", "y", "gripper") and policy.deployment.control_rate == 12.5
    metadata = describe_policy(policy, seed=0, limits=Limits())
    assert metadata["action_names"] == ["x", "y", "gripper"] and metadata["control_rate"] == 12.5
    # Where the data do not say, they are numbered.
    train(tiny_config("target-only", None, target), tmp_path / "other")
    assert load_policy(tmp_path / "other").action_names == ("actions.0", "actions.1", "actions.2")


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
def test_pictures_of_the_robot_get_the_shape_that_the_card_gave_those_of_the_data(
    fit: Fit, target: Path, tmp_path: Path
) -> None:
    card = tmp_path / "card.yaml"
    card.write_text(f"path: {target}\nimage_size: [24, 36]\nimage_fit: {fit}\n")
    train(tiny_config("target-only", None, card), tmp_path / "run")
    policy = load_policy(tmp_path / "run")
    assert policy.deployment.image_fit == fit and policy.spec.cameras == {"agentview_image": (24, 36, 3)}
    metadata = describe_policy(policy, seed=0, limits=Limits())
    assert metadata["observation"]["agentview_image"]["fit"] == fit
    with open_dataset(target) as data:
        picture = data.read(data.episode_names[0], "obs/agentview_image")[:1]
    assert picture.shape[1] == picture.shape[2]
    seen = {}
    for name, image in {"raw": picture, "card": fit_images(picture, (24, 36), fit)}.items():
        policy.reset(0)
        seen[name] = policy.act({"agentview_image": image[0], "robot0_eef_pos": np.zeros(3)})
    np.testing.assert_allclose(seen["raw"], seen["card"], atol=0.05)  # rounding of the pictures
    ours = policy.prepare({"agentview_image": picture[0], "robot0_eef_pos": np.zeros(3)})[0]
    theirs = fit_images(picture, (24, 36), fit)[0].astype(int)
    assert np.abs(ours.images["agentview_image"][0, -1].numpy().astype(int) - theirs).max() <= 1


def test_averages_that_are_nan_do_not_resume(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("cotrain", source, target)
    checkpoint = train(config, tmp_path / "run")
    tensors = load_file(checkpoint / "ema.safetensors")
    next(iter(tensors.values())).fill_(float("nan"))
    save_file(tensors, checkpoint / "ema.safetensors")
    (checkpoint / "checksums.json").unlink()  # which would notice first
    with pytest.raises(UserError, match=r"ema\.safetensors: .* not finite"):
        train(config, tmp_path / "run", resume=True)


def test_the_lines_of_the_quick_start_work_on_a_policy_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_sim_policy(tmp_path / "runs" / "beacon")
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", QUICK_START.read_text(), re.DOTALL)
    (snippet,) = [text for text in snippets if "policy.act" in text]
    names = {
        "beacon": beacon,
        "image": np.zeros((96, 96, 3), np.uint8),
        "position": np.zeros(3),
        "orientation": np.array([0.0, 0, 0, 1]),
        "fingers": np.zeros(2),
    }
    exec(snippet, names)
    assert names["actions"].shape == (8, 4)  # type: ignore[attr-defined]
