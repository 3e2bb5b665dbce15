from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beacon.errors import RunError, UserError
from beacon.sim import evaluate as module
from beacon.sim.arrays import Array
from beacon.sim.batch import run_batch, stretches
from beacon.sim.evaluate import EvaluateConfig, compare, evaluate, evaluation_states, read_result, states_hash
from beacon.sim.experts import make_expert
from beacon.sim.policies import RandomPolicy, load
from beacon.sim.rollout import record
from beacon.sim.world import Episode

from .conftest import MakeWorld


class Replay:
    """Plays recorded actions: row i has its own sequence."""

    obs_steps = 1
    action_steps = 8
    observation_keys = ("robot0_eef_pos",)

    def __init__(self, sequences: Sequence[Array]) -> None:
        self.sequences = sequences
        self.reset(0)

    def reset(self, seed: Any) -> None:
        self.at = dict.fromkeys(range(len(self.sequences)), 0)

    def act(self, observation: Mapping[str, Array], rows: Sequence[int] = ()) -> Array:
        chunks = []
        for row in rows:
            actions, start = self.sequences[row], self.at[row]
            chosen = np.minimum(np.arange(start, start + self.action_steps), len(actions) - 1)
            chunks.append(actions[chosen])
            self.at[row] = start + self.action_steps
        return np.stack(chunks)


class Watcher(RandomPolicy):
    """Random, and remembers what it was shown."""

    obs_steps = 2
    observation_keys = ("agentview_image", "robot0_eef_pos")

    def act(self, observation: Mapping[str, Array]) -> Array:
        assert observation["agentview_image"].shape[1:] == (2, 96, 96, 3)
        assert observation["robot0_eef_pos"].shape[1:] == (2, 3)
        self.shown = getattr(self, "shown", 0) + len(observation["agentview_image"])
        return super().act(observation)


def test_replaying_the_expert_is_as_good_as_the_expert(make_world: MakeWorld) -> None:
    world = make_world("stack")
    config = EvaluateConfig("stack", episodes=4)
    states = evaluation_states(world, "train", config.seed, config.episodes)
    episode = Episode(world)
    recordings = [
        record(
            episode,
            state,
            lambda index=index: make_expert(episode, np.random.default_rng(index)).act,  # type: ignore[misc]
        )
        for index, state in enumerate(states)
    ]
    expert = [world.task.outcomes(recording.frames())["success"] for recording in recordings]
    assert sum(expert) >= 3
    report = evaluate(Replay([np.stack(r.actions) for r in recordings]), config)
    assert [e["success"] for e in report["episodes"]] == expert
    assert (report["n_success"], report["pc_success"]) == (sum(expert), 25 * sum(expert))


def test_a_random_policy_reaches_nothing_whatever_the_workers(tmp_path: Path) -> None:
    spec = "beacon.sim.policies:random_small"
    one = evaluate(spec, EvaluateConfig("lift", "texture", episodes=22), out=tmp_path / "a.json")
    assert one["rates"]["success"]["successes"] == 0
    assert one["rates"]["success"]["wilson_95"][0] == 0
    again = evaluate(spec, EvaluateConfig("lift", "texture", episodes=22, workers=2))
    assert one["episodes"] == again["episodes"]
    stored = read_result(tmp_path / "a.json")
    # LeRobot's names, and its per cent.
    assert (stored["n_episodes"], stored["n_success"], stored["pc_success"]) == (22, 0, 0.0)
    assert stored["pc_success_wilson_95"] == [100 * end for end in stored["rates"]["success"]["wilson_95"]]
    assert stored["initial_states"]["sha256"] == one["initial_states"]["sha256"]
    assert stored["versions"]["robosuite"] == "1.5.2"
    assert stored["domain_parameters"]["look"]["table"] == "wood-varnished-panels"
    assert len(stored["initial_states"]["qpos"]) == 22


class Wandering:
    """Random actions of every row's own; remembers how many rows it was asked for together."""

    obs_steps = 1
    action_steps = 8
    observation_keys = ("robot0_eef_pos",)

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.asked = fails, list[int]()

    def reset(self, seed: Any) -> None:
        self.streams = [np.random.default_rng(number) for number in seed]

    def act(self, observation: Mapping[str, Array], rows: Sequence[int] = ()) -> Array:
        assert len(observation["robot0_eef_pos"]) == len(rows)
        if self.fails:
            raise ValueError("out of memory")
        self.asked.append(len(rows))
        time.sleep(0.05)  # as on a GPU: meanwhile others come to wait
        return np.stack([self.streams[row].uniform(-1, 1, (8, 4)) for row in rows])


def test_workers_share_one_policy() -> None:
    """All workers ask it, those that wait together, and every row goes the way that it goes alone."""
    config = EvaluateConfig("lift", "texture", episodes=42)
    alone = evaluate(policy := Wandering(), config)
    assert max(policy.asked) == module.BATCH
    shared = evaluate(policy := Wandering(), replace(config, workers=3))
    assert shared["episodes"] == alone["episodes"]
    assert sum(policy.asked) == 42 * math.ceil(alone["episodes"][0]["length"] / 8)
    assert max(policy.asked) >= module.BATCH


def test_an_error_of_a_shared_policy_reaches_the_user() -> None:
    with pytest.raises(RunError, match="the policy failed: out of memory"):
        evaluate(Wandering(fails=True), EvaluateConfig("lift", "texture", episodes=22, workers=2))


def test_initial_states_are_fixed_and_hashed(make_world: MakeWorld) -> None:
    world, other = make_world("lift"), make_world("lift", "small", "real-proxy")
    states = evaluation_states(world, "ood", 1, 5)
    assert states == evaluation_states(other, "ood", 1, 5)
    assert states_hash(states) == states_hash(evaluation_states(world, "ood", 1, 5))
    assert states_hash(states) != states_hash(evaluation_states(world, "ood", 2, 5))
    assert states_hash(states) != states_hash(evaluation_states(world, "train", 1, 5))


def test_pictures_are_drawn_only_when_the_policy_looks(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world("lift")
    drawn = 0
    draw = world.renderer._draw

    def counting(data: Any) -> None:
        nonlocal drawn
        drawn += 1
        draw(data)

    monkeypatch.setattr(world.renderer, "_draw", counting)
    policy = Watcher(4)
    run_batch(world, policy, evaluation_states(world, "train", 0, 2), [0, 1])
    horizon, chunk = world.task.size.horizon, policy.action_steps
    looks = -(-horizon // chunk)
    assert policy.shown == 2 * looks
    # One at the start, then two (its memory) before every later look, none at the end.
    assert drawn == 2 * (1 + 2 * (looks - 1))


def test_videos_of_failures(tmp_path: Path) -> None:
    config = EvaluateConfig("lift", episodes=2, videos=1)
    report = evaluate(RandomPolicy(4), config, out=tmp_path / "result.json")
    assert [Path(video).name for video in report["videos"]] == ["failure-000.mp4"]
    assert Path(report["videos"][0]).stat().st_size > 1000
    assert json.loads((tmp_path / "result.json").read_text())["videos"] == report["videos"]


def test_policies_that_do_not_fit_are_refused(make_world: MakeWorld) -> None:
    world = make_world("lift")
    states = evaluation_states(world, "train", 0, 1)
    with pytest.raises(UserError, match=r"actions of shape \(1, 8, 7\)"):
        run_batch(world, RandomPolicy(7), states, [0])

    class Curious(RandomPolicy):
        observation_keys = ("robot0_joint_pos",)

    with pytest.raises(UserError, match="the policy needs robot0_joint_pos"):
        run_batch(world, Curious(4), states, [0])
    with pytest.raises(UserError, match="no run folder"):
        load("runs/absent")
    with pytest.raises(UserError, match="cannot load the policy"):
        load("beacon.sim.policies:absent")
    with pytest.raises(UserError, match="lacks obs_steps"):
        load("builtins:dict")


def test_only_results_from_the_same_states_are_compared() -> None:
    def result(successes: list[float], sha: str = "x", task: str = "lift") -> dict[str, Any]:
        return {
            "task": task,
            "size": "small",
            "domain": "source",
            "region": "train",
            "rates": {"success": {}},
            "initial_states": {"sha256": sha},
            "episodes": [{"success": value} for value in successes],
        }

    found = compare(result([1, 1, 0, 1]), result([0, 1, 0, 0]))["success"]
    assert found["difference"] == 0.5
    with pytest.raises(UserError, match="different initial states"):
        compare(result([1]), result([1], sha="y"))
    with pytest.raises(UserError, match="differ in task"):
        compare(result([1]), result([1], task="stack"))


def test_frames_are_kept_as_stretches() -> None:
    assert stretches(np.array([0, 1, 1, 0, 1], dtype=bool)) == [[1, 3], [4, 5]]
    assert stretches(np.zeros(3, dtype=bool)) == []


def test_initial_states_are_rolled_out_in_batches_of_twenty() -> None:
    assert [list(rows) for rows in module._batches(25)] == [list(range(20)), list(range(20, 25))]
