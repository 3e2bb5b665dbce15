"""`make gpu-check` where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

CHECK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_says_what_to_do_without_a_gpu() -> None:
    done = subprocess.run([sys.executable, CHECK], capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpu-check: --device cuda: cannot be used here")
    assert "on a machine with an NVIDIA GPU" in line and "--device cpu --quick" in line


def test_the_check_itself_runs_on_the_cpu() -> None:
    command = [sys.executable, CHECK, "--device", "cpu", "--quick", "--presets", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    header, _, row = done.stdout.splitlines()[-3:]
    assert header.startswith("| preset, batch |")
    assert row.startswith("| `cpu`, 4 |") and "| to the bit |" in row
