"""A rehearsal says what a run would have and take, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from tiny_runs import tiny_config

from beacon.methods import RECOMMENDED
from beacon.methods.beacon.loss_signal import ExcessOverTarget
from beacon.training import train
from beacon.training.rehearsal import rehearse


@pytest.mark.parametrize(
    ("method", "options", "reference_steps"),
    [
        ("cotrain", None, 0),
        ("beacon", None, 0),
        ("beacon-paper", None, 0),
        ("beacon", replace(RECOMMENDED, loss_signal=ExcessOverTarget(reference_share=0.5)), 15),
    ],
)
def test_what_it_says_is_what_the_run_has(
    method: str, options: Any, reference_steps: int, source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config(method, source, target, options=options, steps=30, steps_per_epoch=6)
    expected = rehearse(config, seconds=0.1)
    before = sorted(tmp_path.rglob("*"))
    assert not before
    checkpoint = train(config, tmp_path / "run")
    tensors = load_file(checkpoint / "policy.safetensors")
    assert expected.parameters == sum(tensor.numel() for tensor in tensors.values())
    files = sum(file.stat().st_size for file in checkpoint.glob("*.safetensors"))
    assert expected.checkpoint_bytes == pytest.approx(files, rel=0.3)  # the files have headers, too
    assert (
        "sim: 5 demonstrations, 45 windows; real (target): 2 demonstrations, 14 windows" in expected.summary
    )
    assert f"method {method}, preset cpu, 30 steps of 8 windows" in expected.summary
    assert expected.reference_steps == reference_steps
    # Three of five refreshes are rehearsed, the rest are as long as the last of them.
    assert expected.refreshes == 3
    parts = [30 * expected.seconds_per_step, reference_steps * expected.seconds_per_step]
    parts += [expected.first_refreshes, 3 * expected.seconds_per_refresh]
    assert expected.seconds == pytest.approx(np.sum(parts)) and expected.seconds_per_step > 0
    assert expected.memory_bytes > 2**20 and 3 <= expected.measured_steps < 60


def test_a_refresh_is_longer_with_more_windows(source: Path, target: Path) -> None:
    """Only a sample is measured; the time is that of all windows."""
    config = tiny_config("beacon-paper", (source,), target, steps=6)
    rehearsed = rehearse(config, seconds=0.1)
    one_epoch = rehearse(replace(config, optimization=replace(config.optimization, steps=2)), seconds=0.1)
    assert rehearsed.seconds_per_refresh > 0 and one_epoch.refreshes == 1
    assert one_epoch.first_refreshes == 0
