"""Checkpoints by epochs and by time, and runs that stop in time and go on as if they had not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import assert_same_runs, tiny_config

from beacon.training import RunOptions, train
from beacon.training.checkpoint_schedule import CheckpointSchedule
from beacon.training.early_looks import LookOptions


def after_epochs(
    options: RunOptions, durations: list[float], loading: float = 0.0
) -> list[tuple[bool, bool]]:
    """What the schedule says after epochs of these many seconds, and as many before the first."""
    clock = [loading]
    schedule = CheckpointSchedule(options, len(durations), now=lambda: clock[0], began=0.0)
    answers = []
    for epoch, seconds in enumerate(durations):
        clock[0] += seconds
        answers.append(schedule.after(epoch))
    return answers


def test_checkpoints_by_epochs() -> None:
    saves = [save for save, _ in after_epochs(RunOptions(checkpoint_every=2), [1.0] * 5)]
    assert saves == [False, True, False, True, True]
    assert sum(save for save, _ in after_epochs(RunOptions(), [1.0] * 100)) == 10


def test_checkpoints_by_time() -> None:
    options = RunOptions(checkpoint_every=100, checkpoint_minutes=1.0)
    # A minute after the last one, whatever the reason for that was.
    answers = after_epochs(options, [40.0, 40.0, 40.0, 20.0, 59.0, 1.0, 1.0])
    assert answers == [(save, False) for save in (False, True, False, True, False, True, True)]


def test_a_run_stops_when_another_epoch_would_end_too_late() -> None:
    options = RunOptions(checkpoint_every=100, max_hours=0.1)  # six minutes
    assert after_epochs(options, [100.0, 100.0]) == [(False, False), (True, False)]  # the last epoch
    assert after_epochs(options, [100.0, 100.0, 100.0, 100.0])[1:3] == [(False, False), (True, True)]
    assert after_epochs(options, [30.0, 200.0, 30.0])[1] == (True, True)  # the longest epoch counts


def test_reading_data_counts_as_well() -> None:
    options = RunOptions(checkpoint_every=100, max_hours=0.1)
    assert after_epochs(options, [100.0] * 4, loading=50.0)[1:3] == [(False, False), (True, True)]
    assert after_epochs(options, [100.0] * 4, loading=70.0)[:2] == [(False, False), (True, True)]


def test_what_is_to_be_looked_at_is_saved() -> None:
    options = RunOptions(checkpoint_every=3, looks=LookOptions(evaluate_every=2, evaluate_task="lift"))
    saves = [save for save, _ in after_epochs(options, [1.0] * 7)]
    assert saves == [False, True, True, True, False, True, True]


@pytest.mark.parametrize("method", ["cotrain", "beacon"])
def test_a_run_in_sessions_ends_as_one(method: str, source: Path, target: Path, tmp_path: Path) -> None:
    whole = train(tiny_config(method, source, target), tmp_path / "whole")
    short = tiny_config(method, source, target, run={"max_hours": 1e-9})  # an epoch a session
    ends = [train(short, tmp_path / "parts", resume=True).name for _ in range(4)]
    assert ends == ["00000002", "00000004", whole.name, whole.name]
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
