"""``--evaluate-every``: what is refused before a run, and what becomes of looks that cannot be."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from test_train_command import SMALL
from tiny_runs import Stopped, metrics, start_cli, stop_at, tiny_config

from beacon.cli.early_looks import early_looks
from beacon.cli.main import main
from beacon.training import train
from beacon.training.early_looks import LookOptions

LOOKS = ["--evaluate-every", "1", "--evaluate-task", "lift"]
OPTIONS = LookOptions(evaluate_every=1, evaluate_task="lift")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--evaluate-every", "2"], "--evaluate-every needs --evaluate-task, for example stack"),
        (
            ["--evaluate-task", "lift"],
            "early looks need --evaluate-every, for example 5",
        ),
        (["--evaluate-every", "0", "--evaluate-task", "lift"], "--evaluate-every 0"),
        (["--evaluate-every", "1", "--evaluate-task", "juggle"], "there is no task 'juggle'"),
        ([*LOOKS, "--evaluate-domain", "moon"], "moon"),
        ([*LOOKS, "--evaluate-region", "far"], "there is no region 'far'"),
        ([*LOOKS, "--evaluate-size", "huge"], "huge"),
        # The task takes other actions than these demonstrations have.
        (LOOKS, "--evaluate-every: the policy has 3-D actions, lift small takes 4; check --task and --size"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_before_the_run(
    options: list[str],
    says: str,
    source: Path,
    target: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = ["--source", str(source), "--target", str(target)]
    assert main(["train", *data, *SMALL, *options, "--out", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("beacon: ") and says in captured.err
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_without_the_simulator_it_says_what_to_install(
    source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where `pip install beacon-cotraining` was all that was said."""
    (tmp_path / "mujoco.py").write_text("raise ModuleNotFoundError(\"No module named 'mujoco'\")\n")
    data = ["--source", source, "--target", target]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    process = start_cli("train", *data, *SMALL, *LOOKS, "--out", tmp_path / "run")
    out, error = process.communicate()
    assert process.returncode == 2 and out == ""
    assert error == (
        "beacon: --evaluate-every: early looks need simulation, and No module named 'mujoco'; "
        "run: pip install 'beacon-cotraining[sim]'\n"
    )


def test_one_look_at_a_time_and_none_at_what_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run never waits: a newer checkpoint takes the place of one that waits."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    with caplog.at_level(logging.INFO), early_looks(OPTIONS) as looks:
        assert looks is not None
        for step in (1, 2, 3):
            looks.saved(step, tmp_path / "gone")
        assert looks.finish() == []
        looks.saved(4, damaged)
        assert looks.finish() == []
    said = [record.getMessage() for record in caplog.records]
    assert "no early look at step 2: that at step 1 takes too long" in said[0]
    assert said[1].startswith("training is done; waiting")
    for line, step in zip(said[2:4], (1, 3), strict=True):
        assert line == f"no early look at step {step}: newer checkpoints took its place; say a larger --keep"
    assert said[5].startswith(f"the early look at step 4: {damaged}: neither a checkpoint")
    assert said[5].endswith("; training goes on")


def test_a_resumed_run_may_go_on_without(source: Path, target: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = tiny_config("cotrain", source, target, run={"looks": OPTIONS})
    with pytest.raises(Stopped):
        train(config, run, listener=stop_at(3))
    assert main(["train", "--resume", "--out", str(run), "--evaluate-every", "None"]) == 0
    assert (run / "checkpoints" / "00000006").is_dir() and metrics(run, "evaluation") == []


def test_without_the_option_there_is_nobody() -> None:
    with early_looks(LookOptions()) as looks:
        assert looks is None
