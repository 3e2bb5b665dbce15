"""Configurations travel as JSON and refuse what contradicts itself."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from beacon.errors import UserError
from beacon.policy import PRESETS, EncoderConfig, ObservationSpec, PolicyConfig


@pytest.mark.parametrize("preset", PRESETS)
def test_json_round_trip(preset: str, spec: ObservationSpec) -> None:
    config = PRESETS[preset]
    assert PolicyConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert ObservationSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_the_papers_values() -> None:
    paper = PRESETS["paper"]
    assert (paper.obs_steps, paper.horizon, paper.action_steps) == (2, 16, 8)
    assert (paper.channels, paper.step_dim, paper.kernel_size, paper.groups) == ((256, 512, 1024), 256, 5, 8)
    assert (paper.train_timesteps, paper.sampling_steps, paper.sampler) == (100, 100, "ddpm")
    assert (paper.schedule, paper.prediction, paper.clip_sample) == ("squaredcos_cap_v2", "epsilon", True)
    assert (paper.encoder.widths, paper.encoder.features) == ((64, 128, 256, 512), 64)


@pytest.mark.parametrize(
    "change",
    [
        {"action_steps": 17},
        {"obs_steps": 0},
        {"horizon": 10},  # three levels halve it twice
        {"channels": (100, 200)},  # eight groups
        {"channels": ()},
        {"kernel_size": 4},
        {"sampling_steps": 101},
        {"sampler": "ddim", "sampling_steps": 30},
        {"sampler": "euler"},
        {"draws": 0},
        {"step_dim": 7},
        {"prediction": "velocity"},
        {"denoiser": "transformer"},
        {"schedule": "cosine"},
        {"denoiser": "mlp", "mlp_width": 0},
    ],
)
def test_contradictions_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        dataclasses.replace(PRESETS["paper"], **change)


@pytest.mark.parametrize(
    "change",
    [
        {"output_stride": 64},
        {"crop": 0.0},
        {"crop": 1.5},
        {"widths": (8, 8, 8)},
        {"widths": (40, 40, 40, 33)},
        {"pooling": "max"},
        {"pooling": "average", "learn_temperature": True},
        {"keypoints": 0},
        {"feature_dim": 0},
        {"image_std": (0.0, 1.0, 1.0)},
    ],
)
def test_encoder_contradictions_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        EncoderConfig(**change)


@pytest.mark.parametrize(
    "cameras, proprio, action_dim",
    [
        ({}, {}, 4),
        ({"a": (8, 8, 3)}, {"a": 2}, 4),
        ({"a": (8, 8)}, {}, 4),
        ({}, {"p": 0}, 4),
        ({}, {"p": 1}, 0),
    ],
)
def test_impossible_observations_are_refused(cameras: Any, proprio: Any, action_dim: int) -> None:
    with pytest.raises(UserError):
        ObservationSpec(cameras, proprio, action_dim)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(UserError, match=r"policy\.colour: there is no such option"):
        PolicyConfig.from_dict({"colour": 1})
    with pytest.raises(UserError, match=r"policy\.encoder\.depth: there is no such option"):
        PolicyConfig.from_dict({"encoder": {"depth": 50}})
    with pytest.raises(UserError):
        ObservationSpec.from_dict({"cameras": {}})


def test_reading_a_configuration_does_not_load_torch() -> None:
    code = "import sys; from beacon.policy import PRESETS; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
