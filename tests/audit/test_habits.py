"""Remarks about how demonstrations were recorded, and what the data cannot tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import point_robot as robot
import pytest

from beacon.audit import SetVerdict, run_audit
from beacon.data import EpisodeSet
from beacon.errors import UserError


@pytest.fixture
def demos() -> list[robot.Arrays]:
    return robot.demonstrations(24, seed=11)


def kinds(verdict: SetVerdict, number: int) -> set[str]:
    return {item.kind for item in verdict.demos[number].evidence}


def test_a_duplicate_names_its_original(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    demos[7] = {**demos[3], "actions": demos[3]["actions"] + np.float32(1e-4)}

    verdict = run_audit([robot.as_set(demos)], target).sets[0]

    assert "near-duplicate of demo_3" in [item.text for item in verdict.demos[7].evidence]
    assert not verdict.demos[7].is_accused  # it is a remark


def test_duplicates_are_named_where_most_are_copies(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    for number in range(10, 24):
        original = demos[number % 10]
        demos[number] = {**original, "actions": original["actions"] + np.float32(1e-4)}

    verdict = run_audit([robot.as_set(demos)], target).sets[0]

    said = [number for number in range(24) if "duplicate" in kinds(verdict, number)]
    assert said == list(range(10, 24))


def test_standing_still_is_said_in_seconds(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    for key in ("actions", "state", "images"):
        demos[5][key] = np.concatenate([np.repeat(demos[5][key][:1], 60, axis=0), demos[5][key]])

    verdict = run_audit([robot.as_set(demos)], target).sets[0]

    assert [item.text for item in verdict.demos[5].evidence if item.kind == "stands still"] == [
        "stands still for 3.0 s"
    ]


def test_saturated_actions(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    half = len(demos[2]["actions"]) // 2
    demos[2]["actions"][:half, 0] = 1.0

    assert "saturated" in kinds(run_audit([robot.as_set(demos)], target).sets[0], 2)


def test_jerk(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    for number, demo in enumerate(demos):  # smooth ways, all alike, but one that trembles
        way = 1 / (1 + np.exp(-np.linspace(-6, 6, len(demo["state"])) * (1 + 0.01 * number)))
        demo["state"][:, :3] = way[:, None]
    tremble = 0.02 * np.random.default_rng(0).normal(size=demos[4]["state"].shape)
    demos[4]["state"] += tremble.astype(np.float32)

    verdict = run_audit([robot.as_set(demos)], target).sets[0]

    assert [number for number in range(len(demos)) if "jerky" in kinds(verdict, number)] == [4]


def test_a_label_of_failure_is_believed(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    for number, demo in enumerate(demos):
        demo["attributes"] = {"success": number != 6}

    verdict = run_audit([robot.as_set(demos)], target).sets[0]

    assert verdict.demos[6].is_accused
    assert verdict.demos[6].reason == "ends without success, as its label says"
    assert sum("no success" in kinds(verdict, number) for number in range(len(demos))) == 1


@pytest.mark.parametrize("key", ["rewards", "dones", "success"])
def test_labels_in_arrays(tmp_path: Path, demos: list[robot.Arrays], target: EpisodeSet, key: str) -> None:
    path = robot.write(tmp_path / "source.hdf5", demos)
    with h5py.File(path, "r+") as file:
        for number, demo in enumerate(demos):
            values = np.zeros(len(demo["actions"]))
            values[-1] = number != 9
            file[f"data/demo_{number}/{key}"] = values

    verdict = run_audit([EpisodeSet.load(path)], target).sets[0]

    assert [n for n in range(len(demos)) if "no success" in kinds(verdict, n)] == [9]


def test_rewards_of_nothing_but_zeros_say_nothing(
    tmp_path: Path, demos: list[robot.Arrays], target: EpisodeSet
) -> None:
    path = robot.write(tmp_path / "source.hdf5", demos)
    with h5py.File(path, "r+") as file:
        for number, demo in enumerate(demos):
            file[f"data/demo_{number}/rewards"] = np.zeros(len(demo["actions"]))

    verdict = run_audit([EpisodeSet.load(path)], target).sets[0]

    assert not any("no success" in kinds(verdict, number) for number in range(len(demos)))


def test_without_proprioception_it_is_said_once(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    source = replace(robot.as_set(demos), proprio={})

    verdict = run_audit([source], replace(target, proprio={})).sets[0]

    assert sum("motion" in remark for remark in verdict.remarks) == 1
    assert not any(item.check == "inverse-dynamics" for demo in verdict.demos for item in demo.evidence)


def test_one_target_demonstration_is_said_once(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    verdict = run_audit([robot.as_set(demos)], target.subset([0])).sets[0]

    assert sum("one target demonstration" in remark for remark in verdict.remarks) == 1
    assert verdict.distance.auc is None


def test_one_source_demonstration_is_refused(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    with pytest.raises(UserError, match="one demonstration"):
        run_audit([robot.as_set(demos[:1])], target)


def test_nothing_to_look_at_is_refused(demos: list[robot.Arrays], target: EpisodeSet) -> None:
    with pytest.raises(UserError, match="nothing can be audited"):
        run_audit([replace(robot.as_set(demos), proprio={}, images={})], target)
