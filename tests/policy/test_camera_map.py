"""The example that says how far a learned map of the target's camera is off."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from beacon.policy import DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig, save_policy
from beacon.policy.camera_homography import LEARNING_RATE_SCALE

EXAMPLE = Path(__file__).parents[2] / "examples" / "camera_map.py"
SPEC = ObservationSpec({"agentview_image": (32, 32, 3)}, {"robot0_eef_pos": 3}, action_dim=3)
ENCODER = EncoderConfig(widths=(8, 8, 8, 8), output_stride=4, crop=1.0, feature_dim=None, adapt_view=True)


def saved(folder: Path, encoder: EncoderConfig, shift: float = 0.0) -> Path:
    """An untrained policy whose map moves all points to the right."""
    config = PolicyConfig(obs_steps=1, encoder=encoder, denoiser="mlp")
    policy = DiffusionPolicy(SPEC, config)
    if policy.encoder.views is not None:
        with torch.no_grad():
            policy.encoder.views[0].departure[4] = shift / LEARNING_RATE_SCALE
    identity = {"offset": [0.0] * 3, "scale": [1.0] * 3}
    scaling = {"actions": identity, "proprio": {"robot0_eef_pos": identity}}
    state = policy.state_dict()
    save_policy(folder, state=state, ema_state=None, spec=SPEC, config=config, normalization=scaling)
    return folder


def ask(domain: str, run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, EXAMPLE, domain, run], capture_output=True, text=True)


def halves(said: str) -> list[tuple[float, float]]:
    return [(float(left), float(right)) for left, right in re.findall(r"([\d.]+) mm off.*?([\d.]+) mm", said)]


def test_a_map_is_compared_with_where_the_cameras_stand(tmp_path: Path) -> None:
    right = saved(tmp_path / "right", ENCODER)
    learned, without = halves(ask("texture", right).stdout)
    assert learned == without == (0.0, 0.0)  # the same camera
    for far in halves(ask("real-proxy", right).stdout)[0]:
        assert 5 < far < 30  # one that was moved by 2 cm
    moved = saved(tmp_path / "moved", ENCODER, shift=0.1)
    for left, other in (halves(ask("texture", moved).stdout)[0],):
        assert 5 < left < 40 and left == pytest.approx(other, rel=0.3)


def test_a_policy_without_a_map_is_refused(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", dataclasses.replace(ENCODER, adapt_view=False))
    answer = ask("texture", run)
    assert answer.returncode == 1 and "adapt_view was off" in answer.stderr and not answer.stdout
