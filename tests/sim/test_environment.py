from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from beacon.errors import UserError
from beacon.sim.registration import environment_ids  # to import the package is enough to register


@pytest.mark.parametrize("name", environment_ids())
def test_gymnasiums_checker_is_content(name: str) -> None:
    environment = gymnasium.make(name, domain="texture", region="ood", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)
    environment.close()


def test_the_wrists_camera() -> None:
    environment = gymnasium.make("beacon/Lift-v0", cameras=("agentview", "robot0_eye_in_hand"), image_size=48)
    observation, _ = environment.reset(seed=1)
    assert environment.observation_space.contains(observation)
    front, wrist = observation["agentview_image"], observation["robot0_eye_in_hand_image"]
    assert front.shape == wrist.shape == (48, 48, 3) and (front != wrist).any()
    environment.close()
    with pytest.raises(UserError, match="--cameras topview: lift has agentview, robot0_eye_in_hand"):
        gymnasium.make("beacon/Lift-v0", cameras=("topview",))


def test_an_episode(make_world: object) -> None:
    environment = gymnasium.make("beacon.sim:beacon/Lift-v0", render_mode="rgb_array")
    observation, info = environment.reset(seed=1)
    again, _ = environment.reset(seed=1)
    assert all(np.array_equal(observation[key], again[key]) for key in observation)
    assert info["objects"]["cube"].shape == (4, 4)
    assert environment.observation_space.contains(observation)
    picture = environment.render()
    assert np.array_equal(picture, observation["agentview_image"])
    for _ in range(100):
        _, reward, terminated, truncated, info = environment.step(np.zeros(4, dtype=np.float32))
        if terminated or truncated:
            break
    assert truncated and not terminated and reward == 0.0
    assert info["outcomes"] == {"success": 0.0}
    environment.close()


def test_wrong_options() -> None:
    for options, message in (({"region": "x"}, "no region"), ({"domain": "x"}, "no domain")):
        with pytest.raises(UserError, match=message):
            gymnasium.make("beacon/Lift-v0", **options)
