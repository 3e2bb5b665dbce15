"""The fast controller is robosuite's, and the simulation repeats exactly."""

from __future__ import annotations

import numpy as np

from beacon.sim.control import axis_angle, rotation_matrix
from beacon.sim.scene import scene_xml
from beacon.sim.world import Episode

from .conftest import MakeWorld, expert_recording


def test_same_motion_as_robosuites_own_controller(make_world: MakeWorld) -> None:
    import robosuite

    import beacon.sim.robosuite_env  # noqa: F401 - registers the environments

    env = robosuite.make(
        "BeaconStack", size="full", stock=True, use_camera_obs=False, has_offscreen_renderer=False, seed=3
    )
    env.reset()
    world = make_world("stack", "full")
    assert env.model.get_xml() == scene_xml(world.task, world.domain)
    episode = Episode(world)
    episode.restore(env.sim.data.qpos.copy())
    rng = np.random.default_rng(0)
    for step in range(20):
        action = np.clip(rng.normal(0, 0.6, 7), -1, 1)
        action[6] = 1.0 if step > 10 else -1.0
        env.step(action)
        episode.step(action)
        assert np.abs(env.sim.data.qpos - episode.data.qpos).max() < 1e-5
    env.close()


def test_same_actions_same_states(make_world: MakeWorld) -> None:
    world = make_world("stack")
    recording = expert_recording("stack", "small", 0)
    episode = Episode(world)
    for _ in range(2):
        episode.reset(recording.initial)
        for action, state in zip(recording.actions, recording.states, strict=True):
            assert np.array_equal(episode.state(), state)
            episode.step(action)


def test_actions_are_delayed_where_the_domain_says_so(make_world: MakeWorld) -> None:
    world = make_world("lift", "small", "real-proxy")
    assert world.domain.physics.action_delay == 1
    moved = []
    for first in (np.zeros(4), np.array([0.0, 0.0, -1.0, 0.0])):
        episode = Episode(world)
        episode.reset(world.initial_state("train", 0))
        episode.step(first)
        moved.append(episode.state())
    assert np.array_equal(*moved)


def test_four_dimensional_actions_hold_the_hand_upright(make_world: MakeWorld) -> None:
    world = make_world("stack")
    episode = Episode(world)
    episode.reset(world.initial_state("train", 4))
    for step in range(30):
        episode.step(np.array([0.5, 0.5 * (-1) ** step, -0.2, 1.0]))
    assert np.linalg.norm(axis_angle(world.nominal_rotation @ episode.hand_rotation.T)) < 0.03
    assert world.nominal_rotation[2, 2] < -0.9999


def test_rotation_vectors_round_trip() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        vector = rng.uniform(-1.5, 1.5, 3)
        assert np.allclose(axis_angle(rotation_matrix(vector)), vector)
    assert np.array_equal(rotation_matrix(np.zeros(3)), np.eye(3))


def test_initial_states_do_not_depend_on_the_domain(make_world: MakeWorld) -> None:
    one = make_world("lift").initial_state("ood", 12)
    other = make_world("lift", "small", "real-proxy").initial_state("ood", 12)
    assert one == other
