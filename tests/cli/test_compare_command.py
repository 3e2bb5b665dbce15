"""``beacon compare``: paired where initial states are the same, exit code 3 where a later result is worse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from beacon.cli.main import main


def ours(path: Path, successes: list[bool], states: str = "s", domain: str = "source") -> str:
    result = {
        "task": "stack",
        "size": "small",
        "domain": domain,
        "region": "train",
        "rates": {"success": {}},
        "initial_states": {"sha256": states},
        "episodes": [{"success": float(success)} for success in successes],
    }
    path.write_text(json.dumps(result))
    return str(path)


def lerobot(path: Path, successes: list[bool], seed: int = 1000) -> str:
    episodes = [{"episode_ix": n, "success": s, "seed": seed + n} for n, s in enumerate(successes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"per_episode": episodes, "aggregated": {}}))
    return str(path)


def draws(rate: float, count: int = 100, seed: int = 0) -> list[bool]:
    return (np.random.default_rng(seed).random(count) < rate).tolist()


def test_a_better_result_is_not_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [ours(tmp_path / "a.json", draws(0.3)), ours(tmp_path / "b.json", draws(0.8))]

    assert main(["compare", *files]) == 0
    assert "paired" in capsys.readouterr().out
    assert main(["compare", *reversed(files)]) == 3


def test_equal_results_share_a_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        ours(tmp_path / "a.json", draws(0.9)),
        ours(tmp_path / "b.json", draws(0.88)),
        ours(tmp_path / "c.json", draws(0.2)),
    ]

    assert main(["compare", *files, "--json"]) == 3

    content = json.loads(capsys.readouterr().out)
    assert content["letters"] == ["a", "a", "b"]
    assert all(pair["is_paired"] for pair in content["pairs"])
    assert all(pair["adjusted_p"] >= pair["p_value"] for pair in content["pairs"])


def test_other_initial_states_are_not_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [ours(tmp_path / "a.json", draws(0.5)), ours(tmp_path / "b.json", draws(0.5, seed=1), "other")]

    assert main(["compare", *files, "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)["pairs"][0]
    assert not pair["is_paired"]
    assert pair["low"] < pair["difference"] < pair["high"]


def test_lerobot_is_paired_by_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = lerobot(tmp_path / "a" / "eval_info.json", draws(0.4))
    same = lerobot(tmp_path / "b" / "eval_info.json", draws(0.5))
    other = lerobot(tmp_path / "c" / "eval_info.json", draws(0.5), seed=2000)

    assert main(["compare", first, same, other, "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [pair["is_paired"] for pair in pairs] == [True, False, False]


def test_lerobot_by_task(tmp_path: Path) -> None:
    file = tmp_path / "eval_info.json"
    tasks = [{"task_group": "x", "task_id": 0, "metrics": {"successes": draws(0.5, 20)}}]
    file.write_text(json.dumps({"per_task": tasks, "overall": {}}))

    assert main(["compare", str(tmp_path), str(file)]) == 0


def test_lerobot_of_other_tasks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number in (0, 1):
        tasks = [{"task_group": "libero", "task_id": number, "metrics": {"successes": draws(0.5, 20)}}]
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps({"per_task": tasks, "overall": {}}))

    assert main(["compare", *map(str, files)]) == 2
    assert "libero 0" in capsys.readouterr().err


def test_partial_results_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, part = tmp_path / "a.json", tmp_path / "b.json"
    ours(whole, draws(0.5))
    ours(part, draws(0.5))
    part.write_text(json.dumps(json.loads(part.read_text()) | {"stopped_early": {"states": 20}}))

    assert main(["compare", str(whole), str(part)]) == 2
    assert "b.json is partial" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"per_episode": []}', '{"per_episode": [{}]}'])
def test_bad_files_are_one_line(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = ours(tmp_path / "a.json", draws(0.5))
    (tmp_path / "b.json").write_text(content)

    assert main(["compare", good, str(tmp_path / "b.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_cannot_be_compared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = ours(tmp_path / "a.json", draws(0.5))
    other = ours(tmp_path / "b.json", draws(0.5), domain="texture")

    assert main(["compare", first, other]) == 2
    assert "one setting" in capsys.readouterr().err
    assert main(["compare", first]) == 2
    assert main(["compare", first, str(tmp_path / "none.json")]) == 2


@pytest.mark.parametrize("success", ["yes", 2, None, float("nan")])
def test_successes_that_are_neither_true_nor_false_are_refused(
    success: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = lerobot(tmp_path / "sound" / "eval_info.json", draws(0.5))
    listed, by_task = tmp_path / "listed.json", tmp_path / "by_task.json"
    listed.write_text(json.dumps({"per_episode": [{"success": success, "seed": 1}]}))
    by_task.write_text(json.dumps({"per_task": [{"metrics": {"successes": [True, success]}}]}))

    for file in (listed, by_task):
        assert main(["compare", sound, str(file)]) == 2
        error = capsys.readouterr().err.splitlines()
        assert len(error) == 1 and "true or false" in error[0]
