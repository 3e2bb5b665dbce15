"""``beacon coverage``: numbers that move with coverage, and proposals that lie in the uncovered part."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from point_robot import Arrays, as_set, demonstrations, picture, write

from beacon.analysis import greedy_facilities
from beacon.audit.coverage import CoverageOptions, measure_coverage, without_look
from beacon.cli.main import main
from beacon.data.converting import convert


def reaching(count: int, seed: int, x: tuple[float, float] = (-0.8, 0.8)) -> list[Arrays]:
    """The hand goes straight from one place to a goal with that range of x; the picture shows the goal."""
    rng = np.random.default_rng(seed)
    demos = []
    for _ in range(count):
        goal, start = np.array([rng.uniform(*x), rng.uniform(-0.8, 0.8), 0.0]), 0.01 * rng.normal(size=3)
        hand = start + np.linspace(0, 1, 30)[:, None] * (goal - start)
        state = np.concatenate([hand, np.full((30, 1), 0.02)], axis=1)
        actions = np.concatenate([np.gradient(hand, axis=0), np.ones((30, 1))], axis=1)
        demos.append(
            {
                "actions": actions.astype(np.float32),
                "state": state.astype(np.float32),
                "images": np.array([picture(goal, h) for h in hand]),
                "attributes": {},
                "goal": goal,
            }
        )
    return demos


def darker(demos: list[Arrays]) -> list[Arrays]:
    """The same with another look."""
    return [{**d, "images": (0.6 * d["images"] + 60).astype(np.uint8)} for d in demos]


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_greedy_has_63_percent_of_the_best_choice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, given_points = rng.normal(size=(9, 2)), rng.normal(size=(2, 2))
    table = np.linalg.norm(points[:, None] - points, axis=2)
    uncovered = np.linalg.norm(points[:, None] - given_points, axis=2).min(axis=1)

    chosen = greedy_facilities(table, uncovered, 3)

    def gain(numbers: tuple[int, ...]) -> float:
        return float(np.maximum(uncovered - table[:, list(numbers)].min(axis=1), 0).sum())

    best = max(gain(numbers) for numbers in combinations(range(9), 3))
    assert sum(choice.gain for choice in chosen) == pytest.approx(gain(tuple(c.index for c in chosen)))
    assert sum(choice.gain for choice in chosen) >= (1 - 1 / np.e) * best - 1e-9
    assert [c.gain for c in chosen] == sorted((c.gain for c in chosen), reverse=True)


def test_what_is_covered_is_not_proposed() -> None:
    assert greedy_facilities(np.zeros((3, 3)), np.zeros(3), 2) == []
    with pytest.raises(ValueError, match="do not belong together"):
        greedy_facilities(np.zeros((3, 3)), np.zeros(2), 2)


@pytest.mark.parametrize("look", [list, darker])
def test_the_other_half_of_the_table_is_proposed(look: Callable[[list[Arrays]], list[Arrays]]) -> None:
    demos = reaching(60, seed=1)
    source = as_set(demos, "source")
    half, whole = as_set(look(reaching(12, 2, (-0.8, 0.0))), "half"), as_set(look(reaching(12, 3)), "whole")

    result = measure_coverage([source], half, CoverageOptions(next=4))

    goals = [demos[proposal.episode]["goal"][0] for proposal in result.proposals]
    assert len(goals) == 4 and min(goals[:3]) > 0  # on the side that the target lacks
    left = [proposal.uncovered_left for proposal in result.proposals]
    assert left == sorted(left, reverse=True) and 0 < left[-1] < 0.7
    by_view = {view.view: view for view in result.sets[0].views}
    better = {view.view: view for view in measure_coverage([source], whole).sets[0].views}
    for name in ("way ahead", "all together"):
        assert by_view[name].source_covered < better[name].source_covered


def test_the_look_is_told_from_what_pictures_show() -> None:
    rng = np.random.default_rng(0)
    ways, member = rng.normal(size=(200, 3)), np.repeat([0, 1], 100)
    ways[member == 1] += [1.0, 0, 0]  # the second set starts elsewhere
    shown = ways @ rng.normal(size=(3, 5))
    looks = rng.normal(size=(2, 5))[member]

    cleaned = without_look(shown + 10 * looks, ways, member)

    difference = cleaned - shown
    np.testing.assert_allclose(difference - difference.mean(axis=0), 0, atol=0.3)


def test_several_sources_of_different_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "first.hdf5", reaching(8, seed=4))
    write(tmp_path / "second.hdf5", reaching(8, 5, (0.0, 0.8)))
    convert(tmp_path / "second.hdf5", tmp_path / "second")
    goal = write(tmp_path / "target.hdf5", reaching(5, 6, (-0.8, 0.0)))
    (tmp_path / "card.yaml").write_text(f"path: {first.name}\n")
    (tmp_path / "second.yaml").write_text(
        "path: second\ncameras: {agentview_image: observation.images.agentview_image}\n"
        "proprio: {robot0_eef_pos: 'observation.state[0:3]', robot0_gripper_qpos: 'observation.state[3:4]'}\n"
    )
    command = ["coverage", "--source", str(tmp_path / "card.yaml"), "--source", str(tmp_path / "second.yaml")]
    command += ["--target", str(goal), "--next", "3"]

    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert "record next" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)

    assert result == json.loads((tmp_path / "out" / "coverage.json").read_text())
    assert [len(s["views"]) for s in result["sets"]] == [4, 4] and len(result["proposals"]) == 3
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"coverage.json", "coverage.html", "next-1.png", "next-2.png", "next-3.png"}
    page = (tmp_path / "out" / "coverage.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 3 and "<script" not in page


def test_a_policy_says_what_looks_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = (
        str(write(tmp_path / f"{name}.hdf5", reaching(count, seed)))
        for name, count, seed in (("source", 10, 1), ("target", 4, 2))
    )
    run = str(tmp_path / "run")
    options = ["--steps", "2", "--steps-per-epoch", "2", "--batch-size", "4", "--no-tensorboard"]
    assert main(["train", "--method", "target-only", "--target", target, "--out", run, *options]) == 0
    capsys.readouterr()

    assert main(["coverage", "--source", source, "--target", target, "--run", run, "--json"]) == 0

    views = json.loads(capsys.readouterr().out)["sets"][0]["views"]
    assert [view["view"] for view in views][-2:] == ["policy", "all together"]


def test_few_target_demonstrations_leave_pictures_out() -> None:
    result = measure_coverage([as_set(demonstrations(10, 7), "s")], as_set(demonstrations(1, 8), "t"))
    assert "first pictures" not in {view.view for view in result.sets[0].views}
    assert any("do not tell their look" in remark for remark in result.remarks)
    assert len(result.proposals) == 5


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(write(tmp_path / "a.hdf5", demonstrations(4, seed=9)))
    one = str(write(tmp_path / "one.hdf5", demonstrations(1, seed=9)))
    for arguments, complaint in (
        (["--source", good, "--target", str(tmp_path / "none.hdf5")], "none.hdf5"),
        (["--source", one, "--target", good], "at least two"),
        (["--source", good, "--target", good, "--next", "-1"], "--next -1"),
        (["--source", good, "--target", good, "--out", good], "is a file"),
        (["--source", good, "--target", good, "--run", str(tmp_path)], str(tmp_path)),
        (["--target", good], "source"),
    ):
        assert main(["coverage", *arguments]) == 2
        error = [line for line in capsys.readouterr().err.splitlines() if "opening" not in line]
        assert len(error) == 1 and complaint in error[0]
    assert not (tmp_path / "out").exists()
