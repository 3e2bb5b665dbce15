"""``beacon evaluate --until-decided``: stops early, says so, and pairs the same states."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from beacon.cli.main import main
from beacon.errors import UserError
from beacon.randomness import episode_seed
from beacon.sim.evaluate import EvaluateConfig, evaluate
from beacon.sim.policies import RandomPolicy
from beacon.sim.until_decided import STOPPED_EARLY, DecisionOptions, evaluate_until_decided

from .conftest import expert_recording
from .test_evaluate import Replay

RANDOM = "beacon.sim.policies:random_small"


def test_an_expert_beats_chance_after_one_batch(tmp_path: Path) -> None:
    config = EvaluateConfig("lift", episodes=60)
    seeds = [episode_seed(config.seed, "evaluate", index) for index in range(20)]
    expert = Replay([np.stack(expert_recording("lift", "small", seed).actions) for seed in seeds])
    whole = evaluate(RANDOM, config, out=tmp_path / "random.json")

    decision = evaluate_until_decided(expert, tmp_path / "random.json", config)

    assert (decision.test.better, decision.states, decision.planned) == ("first", 20, 60)
    assert decision.test.decided_after is not None and decision.test.decided_after <= 20
    result, stored = decision.results
    assert result[STOPPED_EARLY]["is_better"] and result[STOPPED_EARLY]["states"] == 20
    assert len(result["episodes"]) == 20
    assert stored == json.loads((tmp_path / "random.json").read_text()) == json.loads(json.dumps(whole))


def test_the_command_says_how_many_states_and_what_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", RANDOM, "--task", "lift", "--episodes", "3"]

    assert main([*command, "--until-decided", "beacon.sim.policies:random_small"]) == 0

    shown = capsys.readouterr().out
    assert "not decided after 3 states" in shown and "the price: with at most 3 states" in shown
    # All states were used: it is the result that `beacon evaluate` gives.
    (file,) = (tmp_path / "runs" / "eval").rglob("*.json")
    stored = json.loads(file.read_text())
    assert STOPPED_EARLY not in stored
    assert stored["episodes"] == evaluate(RANDOM, EvaluateConfig("lift", episodes=3))["episodes"]


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    evaluate(RANDOM, EvaluateConfig("lift", episodes=2, seed=5), out=file)
    for more, complaint in (
        (["--episodes", "2"], "does not start from the 2 initial states"),
        (["--episodes", "2", "--domain", "texture"], "cannot be paired"),
        (["--episodes", "2", "--alpha", "2"], "--alpha"),
        (["--episodes", "2", "--video"], "does not go with"),
        (["--episodes", "2", "--seed", "5", "--criterion", "grace"], "take one of success"),
    ):
        assert main(["evaluate", RANDOM, "--task", "lift", "--until-decided", str(file), *more]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and complaint in lines[0]


def test_unknown_outcomes_are_refused() -> None:
    with pytest.raises(UserError, match="take one of success"):
        evaluate_until_decided(
            RandomPolicy(4), RANDOM, EvaluateConfig("lift", episodes=1), DecisionOptions(criterion="grace")
        )
