"""An action chunk of the paper's network: against LeRobot's, and by how many threads; for serving.py."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec
from beacon.policy.trained import Affine, Normalization, TrainedPolicy

LEROBOT = """
import time, torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
torch.set_num_threads({threads})
config = DiffusionConfig(
    n_obs_steps=2, horizon=16, n_action_steps=8, down_dims=(256, 512, 1024), kernel_size=5, n_groups=8,
    diffusion_step_embed_dim=256, use_film_scale_modulation=True, noise_scheduler_type="DDIM",
    num_inference_steps=10, crop_shape=None, pretrained_backbone_weights=None, use_group_norm=True,
    device="cpu",
    input_features={{
        "observation.images.a": PolicyFeature(FeatureType.VISUAL, (3, 84, 84)),
        "observation.state": PolicyFeature(FeatureType.STATE, (9,)),
    }},
    output_features={{"action": PolicyFeature(FeatureType.ACTION, (7,))}},
)
policy = DiffusionPolicy(config).eval()
print(sum(p.numel() for p in policy.parameters()), flush=True)
batch = {{"observation.state": torch.rand(1, 2, 9), "observation.images": torch.rand(1, 2, 1, 3, 84, 84)}}
with torch.inference_mode():
    for line in iter(input, ""):
        began = time.perf_counter()
        policy.diffusion.generate_actions(batch)
        print(time.perf_counter() - began, flush=True)
"""


def paper_policy() -> TrainedPolicy:
    """The paper's network, 84 pixels, ten DDIM steps."""
    spec = ObservationSpec({"a": (84, 84, 3)}, {"p": 9}, 7)
    config = replace(PRESETS["paper"], sampler="ddim", sampling_steps=10)

    def unit(size: int) -> Affine:
        return Affine(torch.zeros(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64))

    return TrainedPolicy(DiffusionPolicy(spec, config), Normalization(unit(7), {"p": unit(9)}))


def measure_chunk(quick: bool, threads: int, lerobot: str | None) -> dict[str, float]:
    """An action chunk of the paper's network in turns with its rivals; medians of all turns but the first."""
    suffix = f"_{threads}_thread" + "s" * (threads > 1)
    torch.set_num_threads(threads)
    exact, coarse = paper_policy(), paper_policy()
    coarse.use_precision("bfloat16")
    rng = np.random.default_rng(0)
    seen: dict[str, Any] = {"a": rng.integers(0, 256, (2, 84, 84, 3), dtype=np.uint8), "p": np.zeros((2, 9))}
    rival = None
    result: dict[str, float] = {"parameters": sum(p.numel() for p in exact.policy.parameters())}
    if lerobot:
        rival = subprocess.Popen(
            [lerobot, "-c", LEROBOT.format(threads=threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": str(threads)},
        )
        assert rival.stdin is not None and rival.stdout is not None
        result["lerobot_parameters"] = float(rival.stdout.readline())
    times: dict[str, list[float]] = {"float32": [], "bfloat16": [], "lerobot": []}
    for _ in range(4 if quick else 12):
        for name, policy in (("float32", exact), ("bfloat16", coarse)):
            began = time.perf_counter()
            policy.act(seen, axes="history")
            times[name].append(time.perf_counter() - began)
        if rival is not None and rival.stdin is not None and rival.stdout is not None:
            rival.stdin.write("again\n")
            rival.stdin.flush()
            times["lerobot"].append(float(rival.stdout.readline()))
    if rival is not None:
        rival.terminate()
        rival.wait()
    for name, values in times.items():
        if values:
            result[f"chunk_seconds_{name}{suffix}"] = statistics.median(values[1:])
    if times["lerobot"]:
        for name in ("float32", "bfloat16"):
            pairs = zip(times["lerobot"][1:], times[name][1:], strict=True)
            result[f"lerobot_over_{name}{suffix}"] = statistics.median(
                theirs / ours for theirs, ours in pairs
            )
    exact.reset(0)
    coarse.reset(0)
    difference = exact.act(seen, axes="history") - coarse.act(seen, axes="history")
    result["bfloat16_rms_difference"] = float(np.sqrt(np.mean(difference**2)))
    return result


def measure_threads(quick: bool) -> dict[str, float]:
    """Median seconds of a chunk by one thread and by all, alone and beside a process that is busy, too."""
    policy = paper_policy()
    rng = np.random.default_rng(0)
    seen: dict[str, Any] = {"a": rng.integers(0, 256, (2, 84, 84, 3), dtype=np.uint8), "p": np.zeros((2, 9))}
    result: dict[str, float] = {}
    for neighbours in ("alone", "beside_one"):
        busy = None
        if neighbours == "beside_one":
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            for threads in (1, os.cpu_count() or 1):
                torch.set_num_threads(threads)
                policy.act(seen, axes="history")
                times = []
                for _ in range(3 if quick else 7):
                    began = time.perf_counter()
                    policy.act(seen, axes="history")
                    times.append(time.perf_counter() - began)
                result[f"chunk_seconds_{threads}_threads_{neighbours}"] = statistics.median(times)
        finally:
            if busy is not None:
                busy.kill()
                busy.wait()
    return result
