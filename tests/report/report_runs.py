"""Small real runs for the report: drawn demonstrations, a few training steps, evaluation results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from beacon.analysis import wilson
from beacon.data import RobomimicWriter
from beacon.methods import METHODS
from beacon.plain import changed
from beacon.policy.config import EncoderConfig, PolicyConfig
from beacon.report import Report, ReportBuilder
from beacon.training import DataOptions, OptimizationOptions, RunOptions, TrainConfig, train

POLICY = PolicyConfig(
    obs_steps=1,
    horizon=4,
    action_steps=2,
    encoder=EncoderConfig(
        widths=(8, 8, 8, 8), output_stride=8, keypoints=8, feature_dim=None, group_channels=8
    ),
    denoiser="mlp",
    mlp_width=32,
    mlp_blocks=1,
    step_dim=16,
    sampler="ddim",
    sampling_steps=10,
    draws=2,
)


def make_demonstrations(
    path: Path,
    demos: int,
    *,
    seed: int = 0,
    background: tuple[int, int, int] = (40, 44, 52),
    corrupted: int = 0,
    placements: bool = True,
    corruption: str = "mirrored",
    size: int = 32,
) -> Path:
    """A hand that moves to a square; the first ``corrupted`` ones act mirrored, and say so."""
    rng = np.random.default_rng(seed)
    with RobomimicWriter(path, env_args={"env_name": "Reach", "env_kwargs": {}}) as writer:
        for number in range(demos):
            steps = int(rng.integers(10, 15))
            goal, hand = rng.uniform(-0.8, 0.8, 2), rng.uniform(-0.8, 0.8, 2)
            start = goal.copy()
            actions, images, positions = [], [], []
            for step in range(steps):
                way = np.clip(goal - hand, -0.25, 0.25) * 4
                image = np.empty((size, size, 3), np.uint8)
                image[:] = background
                for point, color in ((goal, (220, 60, 50)), (hand, (70, 130, 240))):
                    row, column = ((point + 1) / 2 * (size - 6)).astype(int)
                    image[row : row + 6, column : column + 6] = color
                images.append(image)
                positions.append(np.r_[hand, 0.0])
                sign = -1 if number < corrupted else 1
                actions.append(np.r_[way * sign, 1.0 if step > steps // 2 else -1.0])
                hand = hand + way / 4 * 0.6
            attributes: dict[str, Any] = {"flaw": corruption if number < corrupted else "none"}
            if placements:
                attributes["placements"] = json.dumps({"square": [*(start / 10), 0.0]})
            writer.add_episode(
                None,
                np.array(actions, np.float32),
                {"agentview_image": np.array(images), "robot0_eef_pos": np.array(positions, np.float32)},
                attributes=attributes,
            )
    return path


def config(
    method: str,
    sources: list[Path],
    target: Path,
    *,
    epochs: int = 4,
    steps_per_epoch: int = 4,
    seed: int = 0,
    validation: Path | None = None,
    **options: Any,
) -> TrainConfig:
    return TrainConfig(
        method=method,
        options=changed(METHODS[method].default_options(), options),
        data=DataOptions(source=tuple(sources), target=target, validation=validation),
        policy=POLICY,
        optimization=replace(
            OptimizationOptions(),
            steps=epochs * steps_per_epoch,
            steps_per_epoch=steps_per_epoch,
            batch_size=16,
            learning_rate=1e-3,
            warmup_steps=2,
            seed=seed,
        ),
        run=RunOptions(log_every=2, tensorboard=False, threads=1, checkpoint_every=2),
    )


def train_run(folder: Path, *args: Any, **options: Any) -> Path:
    train(config(*args, **options), folder)
    return folder


def write_evaluation(
    run: Path, successes: list[int], *, states: str = "5" * 64, name: str = "lift-small-texture-train-1000"
) -> Path:
    """A result file as ``beacon evaluate`` writes it."""
    low, high = wilson(sum(successes), len(successes))
    result = {
        "policy": str(run),
        "task": "lift",
        "size": "small",
        "domain": "texture",
        "region": "train",
        "rates": {
            "success": {
                "successes": sum(successes),
                "episodes": len(successes),
                "rate": sum(successes) / len(successes),
                "wilson_95": [low, high],
            }
        },
        "initial_states": {"sha256": states, "seed": 1000, "qpos": []},
        "episodes": [{"seed": i, "length": 30, "success": float(s)} for i, s in enumerate(successes)],
        "policy_seed": 0,
        "versions": {"python": "3.11", "mujoco": "3.3"},
    }
    file = run / "eval" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(result))
    return file


def build(*runs: Path, **options: Any) -> Report:
    """The report, by default without a map, which costs seconds."""
    return ReportBuilder(list(runs), projection=options.pop("projection", "none"), **options).build()
