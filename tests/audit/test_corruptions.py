"""Every corruption that actions, pictures or the recording can show is found, and called by its name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import point_robot as robot
import pytest
from numpy.typing import NDArray

from beacon.analysis import area_under_curve
from beacon.audit import SetVerdict, run_audit
from beacon.audit.cameras import check_cameras, right_camera
from beacon.audit.dynamics import check_dynamics
from beacon.audit.dynamics_model import DynamicsOptions
from beacon.audit.goals import GoalOptions, check_goals
from beacon.audit.pictures import PictureOptions
from beacon.audit.recordings import read_recordings
from beacon.data import EpisodeSet

DEMOS = 60


def audited(demos: list[robot.Arrays], target: EpisodeSet) -> SetVerdict:
    return run_audit([robot.as_set(demos)], target).sets[0]


def auc(scores: Sequence[float] | NDArray[np.float64], chosen: list[int]) -> float:
    values = np.asarray(scores, np.float64)
    others = np.setdiff1d(np.arange(len(values)), chosen)
    area = area_under_curve(values[chosen], values[others])
    assert area is not None
    return area


@pytest.mark.parametrize(
    ("corrupt", "kind", "words"),
    [
        (robot.delayed(2), "lag", "actions lag the motion by 2 steps"),
        (robot.delayed(4), "lag", "actions lag the motion by 4 steps"),
        (robot.delayed(8), "lag", "actions lag the motion by 8 steps"),
        (robot.mirrored(0), "sign", "action dimension 0 is mirrored"),
        (robot.mirrored(1), "sign", "action dimension 1 is mirrored"),
        (robot.mirrored(2), "sign", "action dimension 2 is mirrored"),
        (robot.scaled(0.5), "scale", "actions are 0.5"),
        (robot.scaled(2.0), "scale", "actions are 2"),
        (robot.swapped, "permutation", "action dimensions 0 and 1 are swapped"),
        (robot.noisy, "actions", "actions do not fit the motion"),
        (robot.frozen, "frozen frames", "frames 5–20 are the same picture"),
        (robot.dropped, "dropped frames", "frames are missing"),
    ],
)
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_found_and_named(
    corrupt: robot.Corrupt, kind: str, words: str, share: float, target: EpisodeSet
) -> None:
    demos = robot.demonstrations(DEMOS, seed=1)
    chosen = robot.corrupted(demos, corrupt, share)

    verdict = audited(demos, target)

    named = [n for n in chosen if verdict.demos[n].is_accused and verdict.demos[n].evidence[0].kind == kind]
    assert len(named) >= 0.9 * len(chosen)
    assert sum(words in verdict.demos[n].reason for n in chosen) >= 0.5 * len(chosen)
    assert len(set(verdict.accused) - set(chosen)) <= 3  # of 60, at a false-discovery rate of 5%


@pytest.mark.parametrize(
    ("corrupt", "least"),
    [
        (robot.delayed(4), 0.97),
        (robot.mirrored(0), 0.97),
        (robot.scaled(0.5), 0.97),
        (robot.noisy, 0.97),
    ],
)
def test_most_of_a_set_may_be_corrupted(corrupt: robot.Corrupt, least: float, target: EpisodeSet) -> None:
    demos = robot.demonstrations(DEMOS, seed=2)
    chosen = robot.corrupted(demos, corrupt, 0.6)

    verdict = audited(demos, target)

    assert auc([demo.score for demo in verdict.demos], chosen) >= least


def test_a_repair_says_how_well_it_fits(target: EpisodeSet) -> None:
    demos = robot.demonstrations(DEMOS, seed=3)
    chosen = robot.corrupted(demos, robot.mirrored(1), 0.2)

    verdict = audited(demos, target)

    for number in chosen:
        repair = verdict.demos[number].evidence[0].repair
        assert repair is not None
        assert repair.signs == (1, -1, 1, 1)
        assert repair.residual_after < 1.5 < repair.residual_before


def test_a_set_that_is_wrong_as_a_whole_is_judged_by_the_target(target: EpisodeSet) -> None:
    demos = robot.demonstrations(30, seed=4)
    robot.corrupted(demos, robot.mirrored(0), 1.0)

    verdict = audited(demos, target)

    assert len(verdict.accused) >= 28
    assert {verdict.demos[number].evidence[0].kind for number in verdict.accused} == {"sign"}


def test_other_dynamics_are_a_remark_and_accuse_nobody(target: EpisodeSet) -> None:
    verdict = audited(robot.demonstrations(40, seed=5, inertia=0.85), target)

    assert any("otherwise than the target's" in remark for remark in verdict.remarks)
    assert len(verdict.accused) <= 1


def test_another_goal_scores_higher() -> None:
    demos = robot.demonstrations(150, seed=6)
    chosen = robot.corrupted(demos, robot.wrong_goal, 0.2)

    result = check_goals(read_recordings(robot.as_set(demos)), GoalOptions())

    assert result.remark is None
    assert auc(result.scores, chosen) >= 0.8


def test_another_camera_scores_higher() -> None:
    demos = robot.demonstrations(80, seed=7)
    chosen = robot.corrupted(demos, robot.other_camera, 0.1)

    result = check_cameras(read_recordings(robot.as_set(demos)), [], PictureOptions())

    assert auc(result.scores, chosen) >= 0.9


@pytest.mark.parametrize(("turns", "tells"), [(0, True), (3, False)])
def test_of_two_cameras_the_target_tells_which_is_right_if_it_has_one(turns: int, tells: bool) -> None:
    demos, trusted = robot.demonstrations(40, seed=7), robot.demonstrations(6, seed=8)
    other = np.zeros(40, np.bool_)
    other[robot.corrupted(demos, robot.other_camera, 0.6)] = True
    for demo in trusted:
        demo["images"] = np.ascontiguousarray(np.rot90(demo["images"], turns, axes=(1, 2)))
    both = read_recordings(robot.as_set(demos)), read_recordings(robot.as_set(trusted))

    right = right_camera(*both, other, ~other, PictureOptions())

    assert (right is not None) == tells
    assert right is None or (right == ~other).all()


def test_small_pictures_that_do_not_show_small_motions_are_not_frozen(target: EpisodeSet) -> None:
    demos = robot.demonstrations(20, seed=8)
    for demo in demos:  # eight grey levels: the picture often stays the same while the robot creeps
        demo["images"] = demo["images"] // 32 * 32

    verdict = audited(demos, target)

    assert not any(item.kind == "frozen frames" for demo in verdict.demos for item in demo.evidence)


def test_p_values_of_sound_demonstrations_are_not_small(target: EpisodeSet) -> None:
    recordings = read_recordings(robot.as_set(robot.demonstrations(80, seed=9)))

    result = check_dynamics(recordings, read_recordings(target), DynamicsOptions())

    assert np.median(result.scores) == pytest.approx(1.0, abs=0.1)
    assert all(item.p_value > 1e-4 for item in result.evidence)


@pytest.mark.parametrize("seeds", [range(100, 105), range(200, 205)])
def test_clean_sets_are_hardly_accused(seeds: range, target: EpisodeSet) -> None:
    verdicts = [audited(robot.demonstrations(DEMOS, seed), target) for seed in seeds]

    accused = sum(len(verdict.accused) for verdict in verdicts)
    assert accused <= 0.02 * DEMOS * len(seeds)


def test_two_ways_to_do_a_task_accuse_neither(target: EpisodeSet) -> None:
    demos = robot.demonstrations(DEMOS, seed=11)
    # Every third robot is pushed about by something that its actions do not know of: it fits badly, and is
    # sound. So are some of the target's.
    rng = np.random.default_rng(12)
    pushed_target = robot.demonstrations(9, seed=13)
    for demo in [*demos[::3], *pushed_target[::3]]:
        push = np.cumsum(0.03 * np.sin(np.linspace(0, 6, len(demo["state"])) + rng.uniform(0, 6)))
        demo["state"][:, :3] += push[:, None].astype(np.float32)

    verdict = audited(demos, robot.as_set(pushed_target))

    assert len(verdict.accused) <= 1


def test_accused_ones_have_no_vote(target: EpisodeSet) -> None:
    demos = robot.demonstrations(DEMOS, seed=14)
    chosen = robot.corrupted(demos, robot.scaled(0.5), 0.6)

    verdict = audited(demos, target)

    assert len(set(verdict.accused) - set(chosen)) <= 2
